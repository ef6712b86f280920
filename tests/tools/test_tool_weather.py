"""The weather tool against a real server that answers as Open-Meteo does, or does not."""

import json

import pytest

from agentkit.tools.base import ToolFailed
from agentkit.tools.weather import weather_tool
from tests.served import dripping, served

LISBON = {
    "name": "Lisbon",
    "country": "Portugal",
    "country_code": "PT",
    "admin1": "Lisboa",
    "latitude": 38.72,
    "longitude": -9.13,
}
PARIS = [
    {
        "name": "Paris",
        "country": "France",
        "country_code": "FR",
        "admin1": "Île-de-France",
        "latitude": 48.85,
        "longitude": 2.35,
    },
    {
        "name": "Paris",
        "country": "United States",
        "country_code": "US",
        "admin1": "Texas",
        "latitude": 33.66,
        "longitude": -95.55,
    },
]
NOW = {
    "current": {
        "time": "2026-05-04T12:15",
        "interval": 900,
        "temperature_2m": 21.4,
        "wind_speed_10m": 8.0,
        "weather_code": 61,
    }
}


def _ask(city, search, forecast=NOW, timeout=5.0):
    with served({"/search": search, "/forecast": forecast}) as base:
        return weather_tool(f"{base}/search", f"{base}/forecast", timeout).invoke({"city": city})


def test_a_report_is_short_and_in_words():
    asked = []

    def forecast(handler, query):
        asked.append(query)
        return NOW

    text = _ask("Lisbon", lambda handler, query: asked.append(query) or {"results": [LISBON]}, forecast)
    assert json.loads(text) == {
        "city": "Lisbon",
        "country": "Portugal",
        "temperature_c": 21.4,
        "wind_kmh": 8.0,
        "conditions": "light rain",
        "time": "2026-05-04T12:15",
    }
    assert (
        asked[0]["name"] == "Lisbon"
        and asked[1]["latitude"] == "38.72"
        and asked[1]["current"] == "temperature_2m,wind_speed_10m,weather_code"
    )


@pytest.mark.parametrize(
    ("city", "latitude"),
    [
        ("Paris", "48.85"),
        ("Paris, Texas", "33.66"),
        ("paris , us", "33.66"),
        ("Paris,France", "48.85"),
        ("Paris, Mars", "48.85"),
    ],
)
def test_what_follows_a_comma_picks_among_places_of_one_name(city, latitude):
    asked = []
    _ask(city, {"results": PARIS}, lambda handler, query: asked.append(query["latitude"]) or NOW)
    assert asked == [latitude]


def test_names_outside_english_go_through_unharmed():
    asked = []
    place = {"name": "กรุงเทพมหานคร", "latitude": 13.75, "longitude": 100.5}
    text = _ask("กรุงเทพ", lambda handler, query: asked.append(query["name"]) or {"results": [place]})
    assert asked == ["กรุงเทพ"] and "กรุงเทพมหานคร" in text and json.loads(text)["country"] == ""


@pytest.mark.parametrize(
    ("search", "forecast", "said"),
    [
        ({"generationtime_ms": 0.5}, NOW, "check the spelling"),
        ({"results": []}, NOW, "check the spelling"),
        ({"results": None}, NOW, "check the spelling"),
        (503, NOW, "HTTP 503"),
        ({"results": [LISBON]}, 429, "HTTP 429"),
        (b"<html>", NOW, "not JSON"),
        ({"results": [LISBON]}, b"oops", "not JSON"),
        ([1, 2], NOW, "unknown form"),
        ({"results": [{"name": "x"}]}, NOW, "unknown form"),
        ({"results": "abc"}, NOW, "unknown form"),
        ({"results": [LISBON]}, {"current": None}, "unknown form"),
        ({"results": [LISBON]}, {"current": {**NOW["current"], "temperature_2m": None}}, "unknown form"),
        ({"results": [LISBON]}, [], "unknown form"),
        (dripping(b" ", 0.1, 50), NOW, "did not answer"),
        ({"results": [LISBON]}, dripping(b" ", 0.1, 50), "did not answer"),
    ],
)
def test_every_failure_is_one_line_that_says_what_to_do(search, forecast, said):
    with pytest.raises(ToolFailed) as caught:
        _ask("Lisbon", search, forecast, timeout=0.4)
    text = str(caught.value)
    assert said in text and "\n" not in text and ("tell the user" in text or "try" in text)


def test_no_network_is_said_and_nothing_is_guessed():
    with pytest.raises(ToolFailed, match="no network.*do not guess"):
        weather_tool("http://no-such-host.invalid/", "http://no-such-host.invalid/", 5).invoke({"city": "Lima"})


def test_an_empty_city_asks_nobody():
    with pytest.raises(ToolFailed, match="city is empty"):
        weather_tool("http://no-such-host.invalid/").invoke({"city": " , Texas"})


def test_a_weather_code_that_nobody_knows_is_shown_as_it_is():
    assert (
        json.loads(_ask("Lisbon", {"results": [LISBON]}, {"current": {**NOW["current"], "weather_code": 42}}))[
            "conditions"
        ]
        == "WMO code 42"
    )
