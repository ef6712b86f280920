"""`get_weather`: the weather now in a city, from Open-Meteo (no key): find the place, then ask for its weather."""

import json
from typing import Annotated, Any

from langchain_core.tools import BaseTool, StructuredTool

from agentkit.sandbox.net import NetError, get_json
from agentkit.tools.base import ToolContext, ToolFailed, ToolSpec

GEOCODING = "https://geocoding-api.open-meteo.com/v1/search"
FORECAST = "https://api.open-meteo.com/v1/forecast"

# WMO code table 4677, the part Open-Meteo uses.
CONDITIONS = {
    0: "clear sky",
    1: "mainly clear",
    2: "partly cloudy",
    3: "overcast",
    45: "fog",
    48: "freezing fog",
    51: "light drizzle",
    53: "drizzle",
    55: "heavy drizzle",
    56: "light freezing drizzle",
    57: "freezing drizzle",
    61: "light rain",
    63: "rain",
    65: "heavy rain",
    66: "light freezing rain",
    67: "freezing rain",
    71: "light snow",
    73: "snow",
    75: "heavy snow",
    77: "snow grains",
    80: "light rain showers",
    81: "rain showers",
    82: "violent rain showers",
    85: "snow showers",
    86: "heavy snow showers",
    95: "thunderstorm",
    96: "thunderstorm with light hail",
    99: "thunderstorm with hail",
}


def weather_tool(geocoding: str = GEOCODING, forecast: str = FORECAST, timeout: float = 10.0) -> BaseTool:
    """The LangChain tool; other addresses serve tests and private mirrors. `timeout` holds for each of two requests."""

    def get_weather(city: Annotated[str, "Name of the city"]) -> str:
        place = _place(city, geocoding, timeout)
        try:
            return json.dumps(_report(place, forecast, timeout), ensure_ascii=False)
        except NetError as error:
            raise ToolFailed(_said(error)) from None
        except (KeyError, TypeError, ValueError):
            raise ToolFailed(_said(NetError("garbage", "a weather report in an unknown form"))) from None

    return StructuredTool.from_function(get_weather, description="The weather in a city right now.")


def _place(city: str, address: str, timeout: float) -> dict[str, Any]:
    """The geocoder's best place; what follows a comma ("Paris, Texas") picks among places of one name."""
    name, _, region = (part.strip() for part in city.partition(","))
    if not name:
        raise ToolFailed("the city is empty: give its name, for example Lisbon")
    try:
        found = get_json(
            address, {"name": name, "count": 10 if region else 1, "language": "en", "format": "json"}, timeout
        )
        places = found.get("results") or []
        wanted = [p for p in places if region and region.casefold() in _regions(p)] or places
        if wanted:
            return {key: wanted[0][key] for key in ("name", "latitude", "longitude")} | {
                "country": wanted[0].get("country") or ""
            }
    except NetError as error:
        raise ToolFailed(_said(error)) from None
    except (AttributeError, KeyError, TypeError, IndexError):
        raise ToolFailed(_said(NetError("garbage", "a list of places in an unknown form"))) from None
    raise ToolFailed(
        f"no city named {city[:80]!r} is known: check the spelling, use the English name, or try a larger city nearby"
    )


def _regions(place: dict) -> set[str]:
    return {str(place[key]).casefold() for key in ("country", "country_code", "admin1", "admin2") if place.get(key)}


def _report(place: dict, address: str, timeout: float) -> dict[str, Any]:
    now = get_json(
        address,
        {
            "latitude": place["latitude"],
            "longitude": place["longitude"],
            "timezone": "auto",
            "current": "temperature_2m,wind_speed_10m,weather_code",
        },
        timeout,
    )["current"]
    code = int(now["weather_code"])
    return {
        "city": str(place["name"]),
        "country": str(place["country"]),
        "temperature_c": float(now["temperature_2m"]),
        "wind_kmh": float(now["wind_speed_10m"]),
        "conditions": CONDITIONS.get(code, f"WMO code {code}"),
        "time": str(now["time"]),
    }


def _said(error: NetError) -> str:
    what = {
        "unreachable": "cannot be reached, there may be no network",
        "timeout": f"did not answer ({error})",
        "status": f"answered with an error ({error})",
        "garbage": f"sent {error}",
    }[error.kind]
    return f"the weather service {what}: do not guess the weather, tell the user that it is not available now"


def _make(context: ToolContext) -> BaseTool:
    return weather_tool()


TOOLS = (ToolSpec("get_weather", "kit", _make, needs=("network",), touches="asks open-meteo.com"),)
