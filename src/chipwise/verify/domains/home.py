"""Home: rooms, devices, temperatures, schedules, and rules about a reading."""

from __future__ import annotations

from chipwise.verify.domains.case import Draft, Intent, Phrasing, Term, ToolCall, call_draft
from chipwise.verify.domains.condition import draw_condition
from chipwise.verify.domains.draw import Draw

ROOMS = (
    Term("bedroom", "bedroom", "卧室"),
    Term("kitchen", "kitchen", "厨房"),
    Term("living_room", "living room", "客厅"),
    Term("bathroom", "bathroom", "浴室"),
    Term("study", "study", "书房"),
    Term("hallway", "hallway", "走廊"),
    Term("garage", "garage", "车库"),
    Term("balcony", "balcony", "阳台"),
    Term("nursery", "nursery", "儿童房"),
    Term("dining_room", "dining room", "餐厅"),
)
DEVICES = (
    Term("lamp", "lamp", "台灯"),
    Term("fan", "fan", "风扇"),
    Term("heater", "heater", "取暖器"),
    Term("humidifier", "humidifier", "加湿器"),
    Term("purifier", "purifier", "净化器"),
    Term("tv", "TV", "电视"),
    Term("speaker", "speaker", "音箱"),
    Term("kettle", "kettle", "水壶"),
    Term("air_conditioner", "air conditioner", "空调"),
    Term("dryer", "dryer", "烘干机"),
)
PLUGS = ("plug", "valve", "relay", "light", "pump")
UNITS = (Term("C", "degrees Celsius", "摄氏度"), Term("F", "degrees Fahrenheit", "华氏度"))
SWITCH = (Term("turn_on", "turn on", "打开"), Term("turn_off", "turn off", "关闭"))
READINGS = (
    (Term("temperature", "temperature", "温度"), 30, 40),
    (Term("humidity", "humidity", "湿度"), 30, 80),
)

TEMPERATURE = Phrasing(
    "temperature",
    (
        "Set the {room} to {value} {unit}.",
        "Please make the {room} {value} {unit}",
        "I want {value} {unit} in the {room}.",
    ),
    ("把{room}的温度设为{value}{unit}。", "{room}调到{value}{unit}", "请让{room}保持{value}{unit}。"),
)
BRIGHTNESS = Phrasing(
    "brightness",
    (
        "Dim the {room} lamp to {value} percent.",
        "Set light {id} in the {room} to {value} percent.",
        "Brightness of the {room} lamp: {value} percent, please.",
    ),
    ("把{room}的灯调到{value}%。", "{room}的{id}亮度设为{value}%。", "请将{room}灯光亮度改成{value}%"),
)
SWITCHING = Phrasing(
    "switch",
    (
        "{Do} the {device} in the {room}.",
        "{Do} the {room} {device}, do not {undo} it.",
        "Do not {undo} the {device} in the {room}, {do} it.",
        "Leave the {other} alone and {do} the {device} in the {room}.",
    ),
    (
        "{do}{room}的{device}。",
        "{do}{room}的{device}，不要{undo}。",
        "不要{undo}{room}的{device}，请{do}它。",
        "别动{other}，{do}{room}的{device}。",
    ),
)
SCHEDULE = Phrasing(
    "schedule",
    (
        "{Do} {id} at {time} for {minutes} minutes.",
        "At {time} {do} {id}, run it {minutes} minutes.",
        "For {minutes} minutes from {time}, {do} {id}.",
    ),
    (
        "{time}{do}{id}，持续{minutes}分钟。",
        "请在{time}{do}{id}，时长{minutes}分钟",
        "从{time}起{do}{id}，共{minutes}分钟。",
    ),
)
RULE = Phrasing(
    "rule",
    (
        "If the {room} {quantity} is {relation} {limit}, {do} the {device}.",
        "{Do} the {device} in the {room} if {quantity} is {relation} {limit}.",
    ),
    ("如果{room}{quantity}{relation}{limit}，就{do}{device}。", "{room}的{quantity}{relation}{limit}时{do}{device}。"),
)


def temperature(draw: Draw, lang: str) -> Draft:
    """Set a room's temperature, in half degrees Celsius or whole degrees Fahrenheit."""
    room, unit = draw.choice(ROOMS), draw.choice(UNITS)
    half = draw.integer(30, 64)
    value: float = half // 2 if half % 2 == 0 else half / 2
    if unit.id == "F":
        value = draw.integer(59, 89)
    name, text = TEMPERATURE.render(draw, lang, {"room": room.name(lang), "value": value, "unit": unit.name(lang)})
    return call_draft(name, text, ToolCall("set_temperature", {"room": room.id, "value": value, "unit": unit.id}))


def brightness(draw: Draw, lang: str) -> Draft:
    """Set the brightness of a room's lamp or of one numbered light."""
    room, value, light = draw.choice(ROOMS), draw.integer(1, 100), f"light-{draw.digits(4)}"
    name, text = BRIGHTNESS.render(draw, lang, {"room": room.name(lang), "value": value, "id": light})
    target = light if light in text else "lamp"
    return call_draft(name, text, ToolCall("set_brightness", {"room": room.id, "device": target, "percent": value}))


def switch(draw: Draw, lang: str) -> Draft:
    """Switch a device; the wording may name the opposite act or another device and exclude it."""
    room = draw.choice(ROOMS)
    device, other = draw.sample(DEVICES, 2)
    do, undo = draw.sample(SWITCH, 2)
    values = {"room": room.name(lang), "device": device.name(lang), "other": other.name(lang)}
    acts = {"do": do.name(lang), "Do": do.name(lang).capitalize(), "undo": undo.name(lang)}
    name, text = SWITCHING.render(draw, lang, {**values, **acts})
    return call_draft(name, text, ToolCall(do.id, {"room": room.id, "device": device.id}))


def schedule(draw: Draw, lang: str) -> Draft:
    """Switch a numbered device at a time for some minutes."""
    device, time, minutes = f"{draw.choice(PLUGS)}-{draw.digits(4)}", draw.clock(), draw.integer(2, 180)
    do = draw.choice(SWITCH)
    values = {"id": device, "time": time, "minutes": minutes}
    acts = {"do": do.name(lang), "Do": do.name(lang).capitalize()}
    name, text = SCHEDULE.render(draw, lang, {**values, **acts})
    arguments = {"device": device, "action": do.id, "time": time, "minutes": minutes}
    return call_draft(name, text, ToolCall("schedule", arguments))


def rule(draw: Draw, lang: str) -> Draft:
    """Act only if the reading in the system message satisfies the condition."""
    room, device, do = draw.choice(ROOMS), draw.choice(DEVICES), draw.choice(SWITCH)
    quantity, low, high = draw.choice(READINGS)
    condition = draw_condition(draw, low, high)
    values = {"room": room.name(lang), "device": device.name(lang), "quantity": quantity.name(lang)}
    acts = {"do": do.name(lang), "Do": do.name(lang).capitalize()}
    limits = {"relation": condition.relation.name(lang), "limit": condition.limit}
    name, text = RULE.render(draw, lang, {**values, **acts, **limits})
    call = condition.choose(ToolCall(do.id, {"room": room.id, "device": device.id}))
    return call_draft(name, text, call, system=f"{quantity.name(lang)}: {condition.reading}")


INTENTS: tuple[Intent, ...] = (temperature, brightness, switch, schedule, rule, rule)
