"""Draw one value of a named kind: how a person says it, and what the call must hold.

Short lists are recalled instead of copied ("Lisbon became Lima"), so nearly everything here comes from large open
sets (Faker's names and words) or is made of random syllables.
"""

import random
import re
import string
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache


@dataclass(frozen=True)
class Value:
    """`said` stands in a request, `value` in the call's JSON."""

    said: str
    value: object


@lru_cache(1)
def _faker():
    from faker import Faker
    from faker.providers.address.it_IT import Provider

    # Faker makes this list from a set: unsorted, its order would change with every process.
    Provider.cities = sorted(Provider.cities)
    return Faker(["en_US", "en_GB", "de_DE", "fr_FR", "es_ES", "it_IT", "nl_NL", "pl_PL", "pt_BR", "sv_SE", "tr_TR"])


@lru_cache(1)
def _english():
    from faker import Faker

    return Faker("en_US")


def seed(number: int) -> random.Random:
    """One generator for everything drawn here; Faker's two are seeded with it."""
    _faker().seed_instance(number)
    _english().seed_instance(number + 1)
    return random.Random(number)


def syllables(rng: random.Random, low: int = 2, high: int = 4) -> str:
    """A made-up word: no model can recall it, so it must be copied."""
    onset = "b c d f g h j k l m n p r s t v w z br cr dr fl gr kl pl pr sh sk st th tr".split()
    return "".join(rng.choice(onset) + rng.choice("a e i o u ai ea io ou".split()) + rng.choice(["", "", "n", "r", "l", "s"])
                   for _ in range(rng.randint(low, high)))


def _name(rng, real):
    return real() if rng.random() < 0.65 else syllables(rng).capitalize()


def words(rng: random.Random, low: int, high: int) -> str:
    """`low` to `high` English words that make no sense together."""
    return " ".join(_english().words(rng.randint(low, high)))


def _sentence(rng):
    form = rng.random()
    if form < 0.3:
        return words(rng, 3, 7)
    if form < 0.6:
        return _english().sentence(nb_words=rng.randint(4, 9)).rstrip(".")
    who, what, when = _english().first_name(), words(rng, 1, 2), rng.choice(["tomorrow", "at noon", "on Friday", "next week", "by 6 pm", "tonight"])
    return rng.choice([f"{who} needs the {what} {when}", f"please bring the {what} {when}", f"the {what} is ready, see you {when}",
                       f"I moved the {what} to {when}", f"Remember the {what} for {who}", f"running late, start the {what} without {who}"])


def _path(rng):
    parts = [_english().word() if rng.random() < 0.7 else syllables(rng, 1, 2) for _ in range(rng.randint(0, 2))]
    return "/".join([*([""] if parts and rng.random() < 0.3 else []), *parts, _filename(rng)])


def _filename(rng):
    stem = rng.choice([_english().word(), f"{_english().word()}_{_english().word()}", f"{syllables(rng, 1, 3)}-{rng.randint(1, 99)}",
                       f"{_english().word()}{rng.randint(2, 2030)}"])
    return stem + "." + rng.choice("txt md csv json py log pdf yaml html xml ini toml js sh sql png docx xlsx conf".split())


def _date(rng):
    day = date(rng.randint(1950, 2035), 1, 1) + timedelta(days=rng.randrange(365))
    if rng.random() < 0.75:
        return Value(day.isoformat(), day.isoformat())
    return Value(rng.choice([f"{day:%B} {day.day}, {day.year}", f"{day.day} {day:%B} {day.year}"]), day.isoformat())


CURRENCIES = {"USD": "US dollars", "EUR": "euros", "GBP": "British pounds", "JPY": "Japanese yen", "CHF": "Swiss francs", "CAD": "Canadian dollars",
              "AUD": "Australian dollars", "INR": "Indian rupees", "CNY": "Chinese yuan", "SEK": "Swedish kronor", "NOK": "Norwegian kroner",
              "THB": "Thai baht", "MXN": "Mexican pesos", "BRL": "Brazilian reais", "KRW": "Korean won", "PLN": "Polish zloty",
              "TRY": "Turkish lira", "ZAR": "South African rand", "SGD": "Singapore dollars", "NZD": "New Zealand dollars"}
LISTS = {
    "weekday": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split(),
    "month": "January February March April May June July August September October November December".split(),
    "food": "lentil soup|salmon|mushroom risotto|chicken|tofu|pad thai|sourdough bread|carrots|basmati rice|avocado|beef stew|falafel|spinach|"
            "ramen|eggs|goat cheese|apple pie|oat milk|shrimp|black beans|pumpkin|tomatoes|yoghurt|olives|couscous|turkey|peanut butter|kimchi".split("|"),
    "animal": "otter|snow leopard|barn owl|red fox|blue whale|hedgehog|emperor penguin|honey bee|koala|salamander|lynx|tortoise|raven|moose|"
              "octopus|gecko|wolf|giraffe|bat|heron|beaver|python|seahorse|camel|eagle|zebra|hamster|goldfish".split("|"),
    "plant": "basil|oak|sunflower|fern|lavender|tomato|bamboo|maple|cactus|orchid|wheat|birch|moss|rose|ivy|rice|mint|pine".split("|"),
    "sport": "football|tennis|basketball|cricket|rugby|swimming|volleyball|hockey|badminton|cycling|golf|judo|rowing|handball|baseball|skiing".split("|"),
    "disease": "malaria|asthma|influenza|diabetes|measles|migraine|anemia|bronchitis|eczema|cholera|arthritis|hypertension|hepatitis|rabies".split("|"),
    "element": "hydrogen|carbon|oxygen|iron|gold|silver|copper|neon|zinc|lead|nitrogen|sodium|titanium|helium|uranium|calcium|sulfur|nickel".split("|"),
    "unit": "meters|feet|miles|kilometers|inches|pounds|kilograms|grams|liters|gallons|celsius|fahrenheit|ounces|yards|centimeters".split("|"),
    "emoji_free_text": None,
}


COUNTED = "two three four five six seven eight nine ten eleven twelve".split()
CLOCK = ["one", *COUNTED]


def _time(rng) -> Value:
    """A time of day as digits, or as people say it; the call always holds HH:MM."""
    hour, minute = rng.randint(0, 23), rng.choice([0, 15, 30, 45, rng.randint(0, 59)])
    written = f"{hour:02d}:{minute:02d}"
    half, twelve = ("am" if hour < 12 else "pm"), (hour - 1) % 12 + 1
    if rng.random() < 0.55:
        return Value(written, written)
    if rng.random() < 0.5 or minute not in (0, 15, 30, 45):
        return Value(f"{twelve}{rng.choice(['', ' '])}{half}" if not minute else f"{twelve}:{minute:02d} {half}", written)
    part = "in the morning" if hour < 12 else "in the afternoon" if hour < 18 else "in the evening"
    spoken = {0: f"{CLOCK[twelve - 1]} o'clock", 15: f"quarter past {CLOCK[twelve - 1]}", 30: f"half past {CLOCK[twelve - 1]}",
              45: f"quarter to {CLOCK[twelve % 12]}"}[minute]
    return Value(f"{spoken} {part}", written)


def _nested(text: str) -> list[str]:
    """Split at the commas that are not inside brackets."""
    parts, depth, part = [], 0, ""
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and not depth:
            parts, part = [*parts, part], ""
        else:
            part += letter
    return [*parts, part]


def _limits(kind: str, inside: str | None) -> list[float]:
    """The two numbers of `low,high`."""
    try:
        low, high = map(float, (inside or "").split(","))
    except ValueError:
        raise ValueError(f"kind {kind!r}: needs the numbers low,high at the end of its brackets") from None
    return [low, high]


def draw(kind: str, rng: random.Random) -> Value:
    """A fresh value of a kind such as `city`, `int(1,9)`, `choice(a|b)` or `list(person,2,3)`; ValueError if unknown."""
    match = re.fullmatch(r"(\w+)(?:\((.*)\))?", kind.strip(), re.S)
    if not match:
        raise ValueError(f"kind {kind!r}: expected a name, with arguments in brackets")
    name, inside = match.groups()
    fake, english = _faker(), _english()
    if name == "choice" and inside:
        picked = rng.choice(inside.split("|")).strip()
        return Value(picked, picked)
    if name == "int":
        low, high = (int(limit) for limit in _limits(kind, inside))
        number = rng.randint(low, high)
        if 2 <= number <= len(COUNTED) + 1 and rng.random() < 0.15:
            return Value(COUNTED[number - 2], number)
        return Value(f"{number:,}" if number > 9999 and rng.random() < 0.2 else str(number), number)
    if name == "number":
        low, high = _limits(kind, inside)
        # Half of them whole: people say "5 metres" to a tool that takes a float.
        number = round(rng.uniform(low, high), rng.choice([0, 0, 1, 2]))
        number = int(number) if number == int(number) and high >= 2 else (number or round((low + high) / 2, 2))
        return Value(str(number), number)
    if name == "list":
        inner, *limits = _nested(inside or "")
        low, high = _limits(kind, ",".join(limits))
        items = [draw(inner, rng) for _ in range(rng.randint(int(low), int(high)))]
        said = [str(item.value) if isinstance(item.value, int) else item.said for item in items]
        joined = rng.choice([", ".join(said[:-1]) + " and " + said[-1] if len(said) > 1 else said[0], ", ".join(said),
                             "[" + ", ".join(said) + "]" if isinstance(items[0].value, int | float) else ", ".join(said)])
        return Value(joined, [item.value for item in items])
    if name == "flag":
        return Value("yes", True)
    if name == "date":
        return _date(rng)
    if name == "time":
        return _time(rng)
    if name == "expression":
        return _expression(rng)
    if name == "currency":
        code = rng.choice(list(CURRENCIES))
        return Value(code if rng.random() < 0.7 else CURRENCIES[code], code)
    if name in ("percent", "money", "duration_minutes", "year"):
        number = {"percent": lambda: rng.choice([rng.randint(1, 99), round(rng.uniform(0.5, 30), 1)]),
                  "money": lambda: rng.choice([rng.randint(5, 9000), round(rng.uniform(1, 999), 2)]),
                  "duration_minutes": lambda: rng.randint(2, 180), "year": lambda: rng.randint(1800, 2035)}[name]()
        return Value(str(number), number)
    if LISTS.get(name):
        picked = rng.choice(LISTS[name])
        return Value(picked, picked)
    maker = _TEXT.get(name)
    if maker is None:
        raise ValueError(f"kind {kind!r} is unknown")
    text = maker(rng, fake, english)
    return Value(text, text)


_TEXT = {
    "person": lambda r, f, e: _name(r, f.first_name) + " " + _name(r, f.last_name),
    "first_name": lambda r, f, e: _name(r, f.first_name),
    "city": lambda r, f, e: _name(r, f.city),
    "city_region": lambda r, f, e: f"{_name(r, e.city)}, {e.state_abbr()}",
    "country": lambda r, f, e: e.country().split(",")[0].split("(")[0].strip(),
    "street": lambda r, f, e: f"{r.randint(1, 250)} {_name(r, e.street_name)}" if r.random() < 0.6 else e.street_address().replace("\n", " "),
    "company": lambda r, f, e: _name(r, f.company),
    "email": lambda r, f, e: f"{syllables(r, 1, 3)}{r.choice(['', '.', '_'])}{syllables(r, 1, 2)}@{r.choice([e.domain_name(), syllables(r, 1, 2) + '.' + r.choice(['com', 'org', 'net', 'io', 'de'])])}",
    "phone": lambda r, f, e: r.choice([f"+{r.randint(1, 99)} {r.randint(100, 999)} {r.randint(1000000, 9999999)}", f"{r.randint(200, 999)}-{r.randint(200, 999)}-{r.randint(1000, 9999)}", f"0{r.randint(100, 999)} {r.randint(100000, 999999)}", f"+{r.randint(1, 99)}{r.randint(10**8, 10**9)}"]),
    "url": lambda r, f, e: r.choice(["https://", "https://www.", "http://"]) + r.choice([e.domain_name(), syllables(r, 2, 3) + r.choice([".com", ".org", ".dev", ".net"])]) + r.choice(["", "", "/" + e.word(), f"/{e.word()}/{r.randint(1, 999)}", f"/{syllables(r, 1, 2)}.html", f"/{e.word()}?{e.word()}={r.randint(1, 99)}&{e.word()}={syllables(r, 1, 2)}"]),
    "domain": lambda r, f, e: r.choice([e.domain_name(), syllables(r, 2, 3) + r.choice([".com", ".org", ".io", ".net", ".dev"])]),
    "username": lambda r, f, e: r.choice([e.user_name(), syllables(r, 2, 3) + str(r.randint(1, 99)), syllables(r, 1, 2) + "_" + e.word()]),
    "password": lambda r, f, e: "".join(r.choices(string.ascii_letters + string.digits, k=r.randint(8, 12))),
    "path": lambda r, f, e: _path(r),
    "filename": lambda r, f, e: _filename(r),
    "folder": lambda r, f, e: "/".join([*r.choice([[], [], [""], ["~"]]), *(r.choice([e.word, lambda: syllables(r, 1, 2)])() for _ in range(r.randint(1, 3)))]),
    "language": lambda r, f, e: r.choice("French Spanish German Thai Persian Japanese Korean Italian Dutch Polish Arabic Hindi Swedish Greek Turkish Hebrew Czech Finnish Danish Swahili Vietnamese Portuguese Russian Latin Welsh Basque".split()),
    "color": lambda r, f, e: e.color_name() if r.random() < 0.4 else r.choice("red blue green yellow purple orange white black teal pink crimson amber turquoise grey".split()),
    "word": lambda r, f, e: e.word() if r.random() < 0.7 else syllables(r),
    "phrase": lambda r, f, e: words(r, 2, 4),
    "sentence": lambda r, f, e: _sentence(r),
    "emoji_free_text": lambda r, f, e: _sentence(r),
    "topic": lambda r, f, e: r.choice([words(r, 1, 3), f"{e.word()} in {_name(r, f.city)}", f"history of {e.word()}", f"{e.job().split(',')[0].lower()} {e.word()}", f"how to {e.word()} a {e.word()}"]),
    "title": lambda r, f, e: r.choice(["The ", "", "A "]) + words(r, 1, 3).title() + r.choice(["", "", f" of {syllables(r).capitalize()}", f" {r.randint(2, 9)}"]),
    "product": lambda r, f, e: r.choice([f"{syllables(r, 1, 2).capitalize()} {e.word()}", f"{e.color_name().lower()} {e.word()}", f"{e.word()} {r.choice('lamp chair phone kettle backpack keyboard bottle jacket watch speaker desk tent'.split())}"]),
    "job": lambda r, f, e: e.job().split(",")[0].split("(")[0].strip().lower(),
    "id": lambda r, f, e: r.choice([f"{r.choice(string.ascii_uppercase)}{r.randint(1, 99)}-{r.randint(100, 9999)}", str(r.randint(1000, 999999)), "".join(r.choices(string.ascii_uppercase + string.digits, k=r.randint(5, 8))), f"{syllables(r, 1, 1)}-{r.randint(1, 999)}"]),
    "hash": lambda r, f, e: "".join(r.choices("0123456789abcdef", k=r.randint(7, 12))),
    "ip": lambda r, f, e: e.ipv4(),
    "version": lambda r, f, e: ".".join(str(r.randint(0, 20)) for _ in range(r.randint(2, 3))),
    "formula": lambda r, f, e: _formula(r),
    "sql_table": lambda r, f, e: r.choice([e.word() + "s", f"{e.word()}_{e.word()}", syllables(r, 1, 2) + "_log"]),
    "ticker": lambda r, f, e: "".join(r.choices(string.ascii_uppercase, k=r.randint(2, 5))),
    "airport": lambda r, f, e: "".join(r.choices(string.ascii_uppercase, k=3)),
    "coordinates": lambda r, f, e: f"{r.uniform(-89, 89):.2f}, {r.uniform(-179, 179):.2f}",
}


SPOKEN = {"+": ["plus"], "-": ["minus"], "*": ["times", "multiplied by", "x"], "/": ["divided by", "over"]}


def _expression(rng):
    """Written with signs and copied, or spoken ("23 times 19") and written with signs in the call."""
    def number():
        return str(rng.choice([rng.randint(2, 99), rng.randint(2, 99), rng.randint(100, 9999), round(rng.uniform(0.1, 99), 1)]))

    first, spoken = number(), rng.random() < 0.4
    said = value = first
    space = " " if spoken else rng.choice(["", " "])
    for _ in range(rng.choice([1, 1, 1, 1, 2, 2, 3])):
        sign, operand = rng.choice("+-*/"), number()
        word = rng.choice(SPOKEN[sign][:1] * 3 + SPOKEN[sign][1:]) if spoken else sign
        said, value = f"{said}{space}{word}{space}{operand}", f"{value}{space}{sign}{space}{operand}"
        if not spoken and rng.random() < 0.25:
            said = value = f"({value})"
    return Value(said, value)


def _formula(rng):
    x = rng.choice("xxxtn")
    terms = [rng.choice([f"{rng.randint(2, 9)}{x}^{rng.randint(2, 4)}", f"{x}^{rng.randint(2, 5)}", f"{rng.randint(2, 12)}*{x}", f"sin({x})", f"e^{x}", f"cos({rng.randint(2, 5)}{x})"])]
    for _ in range(rng.randint(0, 2)):
        terms.append(rng.choice(["+", "-"]) + rng.choice([f"{rng.randint(2, 9)}{x}", str(rng.randint(1, 30)), f"{x}^2"]))
    return rng.choice(["", " "]).join(terms)
