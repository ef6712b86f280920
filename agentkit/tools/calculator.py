"""`calculator`: arithmetic on a parsed expression. Nothing is ever evaluated as Python, and nothing can take long.

Decimals are kept as fractions, so that 0.1 + 0.2 is 0.3; only roots, powers and functions leave the exact numbers.
"""

import ast
import math
import operator
import re
import unicodedata
import warnings
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Annotated

from langchain_core.tools import BaseTool, StructuredTool

from agentkit.tools.base import ToolContext, ToolFailed, ToolSpec

MOST_CHARACTERS, MOST_DIGITS = 500, 1000
_MOST_BITS = int(MOST_DIGITS * math.log2(10))
_DIGITS_SHOWN = 15
_CONSTANTS = {"pi": math.pi, "e": math.e}
_SIGNS = str.maketrans(
    {
        "×": "*",
        "·": "*",
        "⋅": "*",
        "∙": "*",
        "÷": "/",
        "⁄": "/",
        "∕": "/",
        "−": "-",
        "–": "-",
        "—": "-",
        "﹣": "-",
        "^": "**",
        "²": "**2",
        "³": "**3",
        "π": "pi",
        "٫": ".",
        "[": "(",
        "]": ")",
        "\u00a0": " ",
        "\u202f": " ",
    }
)

Number = int | float | Fraction


def calculate(expression: str) -> str:
    """The value of an arithmetic expression as text. Raises ToolFailed that says what to write instead."""
    if len(expression) > MOST_CHARACTERS:
        raise ToolFailed(
            f"the expression has {len(expression)} characters, allowed are {MOST_CHARACTERS}: calculate it in parts"
        )
    try:
        return shown(_value(_parsed(expression)))
    except ZeroDivisionError:
        raise ToolFailed("division by zero has no result: check the divisor") from None
    except OverflowError:
        raise ToolFailed("the result is too large: use smaller numbers, or log(...) of them") from None
    except RecursionError:
        raise ToolFailed("the expression is nested too deeply: calculate it in parts") from None


def shown(value: Number) -> str:
    """A number as one would write it: integers in full, others with at most 15 digits and no binary noise."""
    if isinstance(value, int):
        return str(value)
    with localcontext() as context:
        context.prec = _DIGITS_SHOWN
        number = (
            Decimal(value.numerator) / Decimal(value.denominator) if isinstance(value, Fraction) else +Decimal(value)
        )
        if not number:
            return "0"
        number = number.normalize()
        # A whole number is shown exactly, in full unless it is nothing but zeros behind a few digits, like 1e300.
        if isinstance(value, Fraction) and value.denominator == 1 and (value != number or number.adjusted() < 30):
            return str(value.numerator)
        plain = -7 <= number.adjusted() <= _DIGITS_SHOWN
        return f"{number:f}" if plain else f"{number:e}".replace("e+", "e")


def _parsed(expression: str) -> ast.expr:
    text = "".join(str(unicodedata.decimal(c)) if c.isdecimal() else c for c in expression.translate(_SIGNS)).strip()
    text = unicodedata.normalize("NFKC", text)
    # 3 x 4, but not the x of 0x10, max or exp.
    text = re.sub(r"(?<=[\d)])(?<!\b0)\s*[xX]\s*(?=[\d(])|(?<=[\d)])\s+[xX]\s+(?=[\d(])", "*", text)
    text = re.sub(r"√\s*(\d+(?:\.\d+)?)", r"sqrt(\1)", text).replace("√", "sqrt")
    if not text:
        raise ToolFailed("the expression is empty: write one, for example (2+3)*4")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "invalid decimal literal" and the like: the hint below says more
            return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise ToolFailed(f"cannot read {_short(expression)}: {_hint(text)}") from None


def _hint(text: str) -> str:
    """What to write instead, for what people and models usually write."""
    if "=" in text:
        return "leave out the equals sign, and solve for the unknown first"
    if found := re.search(r"(\d+(?:\.\d+)?)\s*%", text):
        return f"for a percentage write {found[1]}/100 * ..."
    if found := re.search(r"(\d+)\s*!", text):
        return f"write factorial({found[1]})"
    for word in re.findall(r"[^\W\d_]{2,}", text):
        if word.lower() not in (*_CONSTANTS, *_FUNCTIONS):
            return f"write numbers and signs, no words ({_short(word)}): for example 23*19 for 23 times 19"
    if found := re.search(r"(\d+(?:\.\d+)?)\s*([A-Za-z]+|\()", text):
        return f"write every multiplication with *, for example {found[1]}*{found[2]}"
    if text.count("(") != text.count(")"):
        return "the parentheses do not match"
    return "use numbers with + - * / // % ** and parentheses, for example (2+3)*4"


def _value(node: ast.expr) -> Number:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            if isinstance(number, float) and math.isinf(number):
                raise OverflowError
            return _checked(number if isinstance(number, int) else Fraction(repr(number)))
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=inner):
            return -_value(inner) if isinstance(sign, ast.USub) else _value(inner)
        case ast.BinOp(op=op, left=left, right=right) if type(op) in _OPERATIONS:
            return _checked(_OPERATIONS[type(op)](_value(left), _value(right)))
        case ast.Name(id=name) if name.lower() in _CONSTANTS:
            return _CONSTANTS[name.lower()]
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name.lower() in _FUNCTIONS:
            return _called(name.lower(), [_value(arg) for arg in args])
    raise ToolFailed(_refusal(node))


def _refusal(node: ast.expr) -> str:
    match node:
        case ast.Tuple():
            return "a comma stands only between the arguments of a function: write 1000 for 1,000 and 2.5 for 2,5"
        case ast.Call(func=ast.Name(id=name)) if name.lower() in _CONSTANTS:
            return f"{name} is a number, not a function: write {name}*(...)"
        case ast.Call(func=ast.Name(id=name)) if name.lower() in _FUNCTIONS:
            return f"write the arguments of {name} without names, for example {name}(2)"
        case ast.Call(func=ast.Name(id=name)) | ast.Name(id=name):
            return f"{_short(name)} is unknown: known are numbers, {', '.join(_CONSTANTS)}, {', '.join(_FUNCTIONS)}"
        case ast.Call():
            return f"write every multiplication with *, for example 2*(3+4), in {_short(ast.unparse(node))}"
    return f"{_short(ast.unparse(node))} is not arithmetic: use numbers with + - * / // % ** and parentheses"


def _called(name: str, args: list[Number]) -> Number:
    function, least, most = _FUNCTIONS[name]
    if not least <= len(args) <= most:
        wanted = str(least) if least == most else f"{least} to {most}" if most < 99 else f"{least} or more"
        raise ToolFailed(f"{name} takes {wanted} arguments, here are {len(args)}")
    try:
        return _checked(function(*args))
    except ValueError:
        raise ToolFailed(f"{name} has no real result for {', '.join(map(shown, args))}") from None


def _checked(value: Number) -> Number:
    if isinstance(value, complex):
        raise ToolFailed("a root of a negative number is not real")
    if isinstance(value, float):
        if not math.isfinite(value):
            raise OverflowError
    elif max(value.numerator.bit_length(), value.denominator.bit_length()) > _MOST_BITS:
        raise ToolFailed(f"the result has more than {MOST_DIGITS} digits: use smaller numbers, or log(...) of them")
    return value


def _power(base: Number, exponent: Number) -> Number:
    whole = not isinstance(exponent, float) and exponent.denominator == 1
    if isinstance(base, float) or not whole:
        return float(base) ** float(exponent)
    if base == 0:
        return Fraction(0) ** max(-1, min(1, exponent.numerator))
    if abs(base) == 1:
        return base if exponent.numerator % 2 else 1
    # Before it is computed: 9**9**9 has 370 million digits.
    size = max(base.numerator.bit_length(), base.denominator.bit_length()) - 1
    if size * abs(exponent.numerator) > _MOST_BITS:
        raise ToolFailed(
            f"{shown(base)}**{_short(shown(exponent))} has more than {MOST_DIGITS} digits: "
            f"use a smaller exponent, or {shown(exponent)[:20]}*log({shown(base)[:20]})"
        )
    power = Fraction(base) ** exponent.numerator
    return power.numerator if isinstance(base, int) and power.denominator == 1 else power


def _divide(left: Number, right: Number) -> Number:
    return Fraction(left) / right if not isinstance(left, float) else left / right


def _sqrt(x: Number) -> Number:
    if not isinstance(x, float) and x >= 0:
        top, bottom = math.isqrt(x.numerator), math.isqrt(x.denominator)
        if top * top == x.numerator and bottom * bottom == x.denominator:
            return Fraction(top, bottom)
    return math.sqrt(x)


def _log(x: Number, base: Number | None = None) -> float:
    # log of a fraction goes through float and would overflow; log of an int does not.
    value = math.log(x) if isinstance(x, float) or x <= 0 else math.log(x.numerator) - math.log(x.denominator)
    return value if base is None else value / _log(base)


def _wave(function: Callable[[float], float]) -> Callable[[Number], float]:
    def rounded(x: Number) -> float:
        value = function(x)
        # sin(pi) is 1.2e-16 because pi is rounded; a result that small beside its argument is nothing but that.
        return 0.0 if abs(value) < 4e-16 * abs(x) else value

    return rounded


def _tan(x: Number) -> float:
    if abs(math.cos(x)) < 4e-16 * abs(x):
        raise ValueError
    return _wave(math.tan)(x)


def _factorial(x: Number) -> int:
    if isinstance(x, float) or x.denominator != 1 or x < 0:
        raise ValueError
    if x > 449:  # 449! has 998 digits
        raise ToolFailed(f"factorial({_short(shown(x))}) has more than {MOST_DIGITS} digits: use a smaller number")
    return math.factorial(x.numerator)


def _round(x: Number, digits: Number = 0) -> Number:
    if isinstance(digits, float) or digits.denominator != 1 or abs(digits) > MOST_DIGITS:
        raise ToolFailed("the second argument of round is how many digits to keep, for example round(2.345, 2)")
    # Halves go away from zero, as people learn it; Python's own round takes 2.5 to 2.
    scale = Fraction(10) ** digits.numerator
    return (1 if x >= 0 else -1) * math.floor(abs(Fraction(x)) * scale + Fraction(1, 2)) / scale


_OPERATIONS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: _divide,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
}
_FUNCTIONS = {
    "sqrt": (_sqrt, 1, 1),
    "sin": (_wave(math.sin), 1, 1),
    "cos": (_wave(math.cos), 1, 1),
    "tan": (_tan, 1, 1),
    "log": (_log, 1, 2),
    "exp": (math.exp, 1, 1),
    "abs": (abs, 1, 1),
    "round": (_round, 1, 2),
    "min": (min, 1, 99),
    "max": (max, 1, 99),
    "floor": (math.floor, 1, 1),
    "ceil": (math.ceil, 1, 1),
    "factorial": (_factorial, 1, 1),
}


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:59] + "…"


def calculator_tool() -> BaseTool:
    """The LangChain tool."""

    def calculator(expression: Annotated[str, "Arithmetic, like (2+3)*4"]) -> str:
        return calculate(expression)

    return StructuredTool.from_function(calculator, description="Calculate an arithmetic expression.")


def _make(context: ToolContext) -> BaseTool:
    return calculator_tool()


TOOLS = (ToolSpec("calculator", "kit", _make, touches="nothing"),)
