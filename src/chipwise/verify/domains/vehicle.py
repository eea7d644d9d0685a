"""Vehicle: navigation with things to avoid, climate, cruise control, calls, radio, and range rules."""

from __future__ import annotations

from chipwise.verify.domains.case import Draft, Intent, Phrasing, Term, ToolCall, call_draft
from chipwise.verify.domains.condition import draw_condition
from chipwise.verify.domains.draw import Draw

EN_LINES = (
    "Elm Oak Maple Cedar Birch Willow Chestnut Laurel River Lake Hill Park Church Mill Station Market Bridge",
    "Garden Castle Harbour Forest Meadow Orchard Spring Victoria King Queen Temple College Abbey",
)
STREETS_EN = tuple(" ".join(EN_LINES).split())
ROADS_EN = ("Street", "Road", "Lane", "Avenue", "Square")
ZH_LINES = (
    "人民 中山 解放 建设 和平 新华 长江 黄河 南京 北京 上海 青年 学院 胜利 光明 文化 友谊 滨江 花园 湖滨",
    "东风 朝阳 迎宾 科技 金沙 天河 西湖 龙泉 梅园 松山",
)
STREETS_ZH = tuple(" ".join(ZH_LINES).split())
ROADS_ZH = ("路", "街", "大道", "巷")
AVOIDABLE = (
    Term("motorway", "motorways", "高速"),
    Term("toll", "tolls", "收费站"),
    Term("ferry", "ferries", "轮渡"),
    Term("tunnel", "tunnels", "隧道"),
)
ZONES = (
    Term("driver", "driver side", "主驾"),
    Term("passenger", "passenger side", "副驾"),
    Term("rear", "rear seats", "后排"),
    Term("cabin", "whole cabin", "全车"),
)
WINDOWS = (
    Term("front_left", "front left", "左前"),
    Term("front_right", "front right", "右前"),
    Term("rear_left", "rear left", "左后"),
    Term("rear_right", "rear right", "右后"),
)
REFILL = (Term("charger", "charger", "充电站"), Term("garage", "garage", "修理厂"))

NAVIGATE = Phrasing(
    "navigate",
    (
        "Take me to {place}.",
        "Navigate to {place}, avoid {avoid}.",
        "Drive to {place} without {avoid}, {allowed} are fine.",
        "Route to {place}. Do not use {avoid} or {avoid2}.",
    ),
    (
        "带我去{place}。",
        "导航到{place}，避开{avoid}。",
        "去{place}，不走{avoid}，可以走{allowed}。",
        "规划到{place}的路线，不要走{avoid}和{avoid2}。",
    ),
)
CLIMATE = Phrasing(
    "climate",
    ("Set the {zone} to {value} degrees.", "Make it {value} degrees for the {zone}."),
    ("{zone}温度调到{value}度。", "请把{zone}设为{value}度"),
)
CRUISE = Phrasing(
    "cruise",
    ("Cruise at {value} {unit}, keep {gap} metres.", "Hold {value} {unit} with a gap of {gap} metres."),
    ("定速{value}{unit}，跟车距离{gap}米。", "保持{gap}米车距，巡航{value}{unit}"),
)
SPEED_UNITS = (Term("km/h", "km/h", "公里每小时"), Term("mph", "mph", "英里每小时"))
DIAL = Phrasing(
    "dial",
    ("Call {number}.", "Please dial {number} on the speaker.", "Do not text, call {number}."),
    ("拨打{number}。", "请给{number}打电话", "不要发短信，打给{number}。"),
)
RADIO = Phrasing(
    "radio",
    ("Tune the radio to {mhz} at volume {volume}.", "Play {mhz} MHz, volume {volume}."),
    ("收音机调到{mhz}，音量{volume}。", "播放{mhz}兆赫，音量{volume}"),
)
WINDOW = Phrasing(
    "window",
    (
        "Open the {window} window to {value} percent.",
        "Not the {other} window, open the {window} one to {value} percent.",
    ),
    ("把{window}车窗开到{value}%。", "不是{other}，把{window}车窗开到{value}%。"),
)
RANGE_RULE = Phrasing(
    "range",
    (
        "If the battery is {relation} {limit}, go to the {place} at {street}.",
        "Go to the {place} at {street} if the battery is {relation} {limit}.",
    ),
    ("如果电量{relation}{limit}，就去{street}的{place}。", "电量{relation}{limit}时导航到{street}的{place}。"),
)


def draw_street(draw: Draw, lang: str) -> str:
    """A street address in the given language."""
    if lang == "zh":
        return f"{draw.choice(STREETS_ZH)}{draw.choice(ROADS_ZH)}{draw.integer(1, 399)}号"
    return f"{draw.integer(1, 399)} {draw.choice(STREETS_EN)} {draw.choice(ROADS_EN)}"


def navigate(draw: Draw, lang: str) -> Draft:
    """Go somewhere, avoiding what the sentence excludes and nothing it allows."""
    place = draw_street(draw, lang)
    avoid, avoid2, allowed = draw.sample(AVOIDABLE, 3)
    names = {"avoid": avoid.name(lang), "avoid2": avoid2.name(lang), "allowed": allowed.name(lang)}
    name, text = NAVIGATE.render(draw, lang, {"place": place, **names})
    excluded: dict[str, list[str]] = {
        "navigate0": [],
        "navigate1": [avoid.id],
        "navigate2": [avoid.id],
        "navigate3": [avoid.id, avoid2.id],
    }
    return call_draft(name, text, ToolCall("navigate", {"to": place, "avoid": excluded[name]}))


def climate(draw: Draw, lang: str) -> Draft:
    """Set a zone's temperature in half degrees Celsius."""
    zone, half = draw.choice(ZONES), draw.integer(32, 60)
    value: float = half // 2 if half % 2 == 0 else half / 2
    name, text = CLIMATE.render(draw, lang, {"zone": zone.name(lang), "value": value})
    return call_draft(name, text, ToolCall("set_climate", {"zone": zone.id, "value": value, "unit": "C"}))


def cruise(draw: Draw, lang: str) -> Draft:
    """Hold a speed and a distance."""
    value, gap, unit = draw.integer(30, 130), draw.integer(20, 90), draw.choice(SPEED_UNITS)
    name, text = CRUISE.render(draw, lang, {"value": value, "unit": unit.name(lang), "gap": gap})
    return call_draft(name, text, ToolCall("cruise", {"value": value, "unit": unit.id, "gap_m": gap}))


def dial(draw: Draw, lang: str) -> Draft:
    """Call a number."""
    number = draw.digits(draw.choice((5, 7, 8)))
    name, text = DIAL.render(draw, lang, {"number": number})
    return call_draft(name, text, ToolCall("call", {"number": number}))


def radio(draw: Draw, lang: str) -> Draft:
    """Tune the radio."""
    mhz, volume = f"{draw.integer(87, 107)}.{draw.integer(1, 9)}", draw.integer(1, 40)
    name, text = RADIO.render(draw, lang, {"mhz": mhz, "volume": volume})
    return call_draft(name, text, ToolCall("radio", {"mhz": float(mhz), "volume": volume}))


def window(draw: Draw, lang: str) -> Draft:
    """Open one window part of the way."""
    chosen, other = draw.sample(WINDOWS, 2)
    value = draw.integer(1, 100)
    values = {"window": chosen.name(lang), "other": other.name(lang), "value": value}
    name, text = WINDOW.render(draw, lang, values)
    return call_draft(name, text, ToolCall("window", {"window": chosen.id, "percent": value}))


def range_rule(draw: Draw, lang: str) -> Draft:
    """Go somewhere only if the battery reading satisfies the condition."""
    street, place = draw_street(draw, lang), draw.choice(REFILL)
    condition = draw_condition(draw, 30, 80)
    limits = {"relation": condition.relation.name(lang), "limit": condition.limit}
    name, text = RANGE_RULE.render(draw, lang, {"street": street, "place": place.name(lang), **limits})
    call = condition.choose(ToolCall("go_to", {"place": place.id, "at": street}))
    label = "电量" if lang == "zh" else "battery"
    return call_draft(name, text, call, system=f"{label}: {condition.reading}")


INTENTS: tuple[Intent, ...] = (navigate, navigate, climate, cruise, dial, radio, window, range_rule, range_rule)
