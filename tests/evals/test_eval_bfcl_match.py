"""The AST match of BFCL: cases made from its rules."""

import pytest

from agentkit.evals.bfcl_match import match_call, standard, tool_name

FUNCTION = {
    "name": "garden.plan",
    "description": "Plans a garden.",
    "parameters": {
        "type": "dict",
        "properties": {
            "owner": {"type": "string"},
            "beds": {"type": "integer"},
            "width": {"type": "float"},
            "fenced": {"type": "boolean"},
            "plants": {"type": "array", "items": {"type": "string"}},
            "depths": {"type": "array", "items": {"type": "float"}},
            "corner": {"type": "tuple", "items": {"type": "float"}},
            "soil": {"type": "dict", "properties": {"kind": {"type": "string"}, "ph": {"type": "float"}}},
            "paths": {"type": "array", "items": {"type": "dict"}},
            "grid": {"type": "array", "items": {"type": "array"}},
            "extra": {"type": "any"},
        },
        "required": ["owner"],
    },
}


def match(arguments, name="garden_plan", **answer):
    right = {"owner": ["Ann Lee"], **answer}
    return match_call(FUNCTION, {"name": name, "arguments": {"owner": "Ann Lee", **arguments}}, right)


def code(reason):
    return reason.split(" ")[0].strip(":")


@pytest.mark.parametrize(
    ("right", "value", "expected"),
    [
        # strings: no case, no blanks, none of ,./-_*^ and one kind of quote
        (("owner", ["April 1, 2024"]), "april 1 2024", ""),
        (("owner", ["New York"]), "NewYork", ""),
        (("owner", ["it's"]), 'IT"S', ""),
        (("owner", ["a+b"]), "a-b", "value"),
        (("owner", ["Rome", "Roma"]), "roma", ""),
        (("owner", ["Rome"]), 7, "type"),
        # numbers and booleans are never strings or each other
        (("beds", [3]), 3, ""), (("beds", [3]), 4, "value"), (("beds", [3]), "3", "type"), (("beds", [3]), 3.0, "type"),
        (("beds", [1]), True, "type"),
        (("width", [2.5]), 2.5, ""), (("width", [2.0]), 2, ""), (("width", [2]), 2.0, ""), (("width", [2]), 2, ""),
        (("width", [2.0]), "2.0", "type"),
        (("fenced", [True]), True, ""), (("fenced", [True]), False, "value"), (("fenced", [True]), 1, "type"),
        (("fenced", [True]), "true", "type"),
        # lists: order and length count, strings inside are made alike, an int is no float inside
        (("plants", [["Rose", "Blue Bell"]]), ["rose", "bluebell"], ""),
        (("plants", [["Rose", "Bell"]]), ["Bell", "Rose"], "value"),
        (("plants", [["Rose", "Bell"]]), ["Rose"], "value"),
        (("plants", [["Rose"], ["Lily"]]), ["lily"], ""),
        (("plants", [["Rose"]]), "Rose", "type"),
        (("plants", [["Rose"]]), [4], "type"),
        (("plants", ["", ["Rose"]]), [], ""),
        (("depths", [[1.0, 2.0]]), [1.0, 2.0], ""),
        (("depths", [[1.0, 2.0]]), [1, 2], "type"),
        (("depths", [[1, 2]]), [1, 2], ""),
        (("depths", [[1, 2]]), [1.0, 2.0], ""),
        (("corner", [[0.5, 1.5]]), [0.5, 1.5], ""),
        (("grid", [[[1, 2], [3]]]), [[1, 2], [3]], ""),
        (("grid", [[["A"]]]), [["a"]], "value"),
        # dicts: each key has its own right values
        (("soil", [{"kind": ["Red Clay", "Clay"], "ph": [6.5]}]), {"kind": "red clay", "ph": 6.5}, ""),
        (("soil", [{"kind": ["Clay"], "ph": [6.5]}]), {"kind": "clay"}, "value"),
        (("soil", [{"kind": ["Clay"], "ph": [6.5, ""]}]), {"kind": "clay"}, ""),
        (("soil", [{"kind": ["Clay"]}]), {"kind": "clay", "ph": 6.5}, "value"),
        (("soil", [{"kind": ["Clay"]}]), {"kind": "sand"}, "value"),
        (("soil", ["", {"kind": ["Clay"]}]), {"kind": "clay"}, ""),
        (("soil", [{"kind": ["Clay"]}]), "clay", "type"),
        # lists of dicts keep their order
        (("paths", [[{"to": ["Gate"]}, {"to": ["Pond"]}]]), [{"to": "gate"}, {"to": "pond"}], ""),
        (("paths", [[{"to": ["Gate"]}, {"to": ["Pond"]}]]), [{"to": "pond"}, {"to": "gate"}], "value"),
        (("paths", [[{"to": ["Gate"]}]]), [{"to": "gate"}, {"to": "gate"}], "value"),
        (("paths", ["", [{"to": ["Gate"]}]]), ["gate"], "value"),
        # a value that has the right answer's type instead of the schema's is compared as it is
        (("beds", ["row_count"]), "row_count", ""),
        (("beds", ["row_count"]), "Row_count", "value"),
        (("extra", [[1, 2]]), [1, 2], ""),
    ],
)
def test_values(right, value, expected):
    name, values = right
    assert code(match({name: value}, **{name: values})) == expected


def test_names():
    assert tool_name("a.b.c") == "a_b_c"
    assert match({}) == ""
    assert match({}, name="garden.plan") == "name: called 'garden.plan', expected 'garden_plan'"
    assert code(match({}, name="plan")) == "name"


def test_required_and_optional_parameters():
    call = {"name": "garden_plan", "arguments": {"beds": 2}}
    assert match_call(FUNCTION, call, {"owner": ["Ann"], "beds": [2]}) == "missing: required parameter 'owner'"
    assert match({}, beds=[2, ""]) == ""
    assert match({}, beds=[2]) == "missing: parameter 'beds' is left out, expected one of [2]"
    assert match({"beds": 2}, beds=["", 2]) == ""


def test_unexpected_parameters():
    assert match({"colour": "red"}) == "unexpected: parameter 'colour'"
    # In the schema, but without any right value in the answer.
    assert match({"beds": 1}) == "unexpected: parameter 'beds'"


def test_reasons_name_parameter_value_and_answer():
    assert match({"beds": 5}, beds=[3, 4]) == "value for 'beds': 5, expected one of [3, 4]"
    assert match({"beds": "3"}, beds=[3]) == "type for 'beds': '3', expected one of [3]"


def test_an_integer_too_large_for_a_float():
    assert code(match({"width": 10**400}, width=[1.0])) == "type"


def test_standard_keeps_other_signs():
    assert standard("A_b-C *1^2./x, 'q'\t+") == 'abc12x"q"\t+'
