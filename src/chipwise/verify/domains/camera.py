"""Camera: recording, moving, alerts with things to ignore, playback, and rules about a count."""

from __future__ import annotations

from chipwise.verify.domains.case import Draft, Intent, Phrasing, Term, ToolCall, call_draft
from chipwise.verify.domains.condition import draw_condition
from chipwise.verify.domains.draw import Draw

OBJECTS = (
    Term("person", "people", "行人"),
    Term("car", "cars", "汽车"),
    Term("dog", "dogs", "狗"),
    Term("bicycle", "bicycles", "自行车"),
    Term("truck", "trucks", "卡车"),
    Term("parcel", "parcels", "包裹"),
)
SIDES = (Term("left", "left", "左"), Term("right", "right", "右"))
TILTS = (Term("up", "up", "上"), Term("down", "down", "下"))
SWITCH = (Term("on", "on", "打开"), Term("off", "off", "关闭"))
FEATURES = (
    Term("night_vision", "night vision", "夜视"),
    Term("privacy_mask", "the privacy mask", "隐私遮挡"),
    Term("microphone", "the microphone", "麦克风"),
    Term("siren", "the siren", "警报"),
)

RECORD = Phrasing(
    "record",
    (
        "Record {id} for {seconds} seconds at {fps} fps.",
        "Start a {seconds} second clip on {id}, {fps} fps.",
        "{id}: record {seconds} s, {fps} fps, no audio.",
    ),
    ("{id}录像{seconds}秒，{fps}帧。", "用{id}以{fps}帧录制{seconds}秒", "{id}录{seconds}秒，{fps}帧，不要声音。"),
)
MOVE = Phrasing(
    "move",
    ("Turn {id} {side} {pan} degrees and {tilt} {by} degrees.", "Move {id} {tilt} {by} and {side} {pan} degrees."),
    ("{id}向{side}转{pan}度，向{tilt}{by}度。", "让{id}向{tilt}{by}度，再向{side}{pan}度"),
)
ALERT = Phrasing(
    "alert",
    (
        "Alert me about {object} on {id} from {start} to {end}.",
        "From {start} to {end} watch {id} for {object}, not {other}.",
        "Ignore {other} on {id}, tell me about {object} between {start} and {end}.",
    ),
    (
        "{start}到{end}，{id}发现{object}就提醒我。",
        "{start}到{end}用{id}看{object}，不看{other}。",
        "{id}忽略{other}，{start}到{end}有{object}时提醒。",
    ),
)
FEATURE = Phrasing(
    "feature",
    ("Switch {state} {feature} on {id}.", "On {id} switch {state} {feature}, not {other}."),
    ("{state}{id}的{feature}。", "{id}{state}{feature}，不是{other}。"),
)
PLAY = Phrasing(
    "play",
    ("Play {id} from {date} {start}.", "Show me what {id} saw on {date} at {start}."),
    ("回放{id}在{date} {start}的录像。", "看{date} {start}的{id}画面"),
)
COUNT_RULE = Phrasing(
    "count",
    (
        "If the number of {object} is {relation} {limit}, take a photo with {id}.",
        "Take a photo with {id} if the count of {object} is {relation} {limit}.",
    ),
    ("如果{object}数量{relation}{limit}，用{id}拍照。", "{object}{relation}{limit}时让{id}拍照。"),
)


def draw_camera(draw: Draw) -> str:
    """A camera's identifier."""
    return f"cam-{draw.digits(draw.choice((2, 3, 4)))}"


def record(draw: Draw, lang: str) -> Draft:
    """Record for some seconds at some rate; the wording may exclude sound."""
    camera, seconds, fps = draw_camera(draw), draw.integer(2, 600), draw.choice((5, 10, 12, 15, 20, 24, 25, 30, 50, 60))
    name, text = RECORD.render(draw, lang, {"id": camera, "seconds": seconds, "fps": fps})
    arguments = {"camera": camera, "seconds": seconds, "fps": fps, "audio": name != "record2"}
    return call_draft(name, text, ToolCall("record", arguments))


def move(draw: Draw, lang: str) -> Draft:
    """Turn a camera: left and down are negative."""
    camera, side, tilt = draw_camera(draw), draw.choice(SIDES), draw.choice(TILTS)
    pan, by = draw.integer(1, 170), draw.integer(1, 60)
    words = {"side": side.name(lang), "tilt": tilt.name(lang)}
    name, text = MOVE.render(draw, lang, {"id": camera, "pan": pan, "by": by, **words})
    signed = {"pan": -pan if side.id == "left" else pan, "tilt": -by if tilt.id == "down" else by}
    return call_draft(name, text, ToolCall("move", {"camera": camera, **signed}))


def alert(draw: Draw, lang: str) -> Draft:
    """Watch for one kind of object, not another, between two times."""
    camera, start, end = draw_camera(draw), draw.clock(), draw.clock()
    wanted, other = draw.sample(OBJECTS, 2)
    words = {"object": wanted.name(lang), "other": other.name(lang)}
    name, text = ALERT.render(draw, lang, {"id": camera, "start": start, "end": end, **words})
    arguments = {"camera": camera, "class": wanted.id, "from": start, "to": end}
    return call_draft(name, text, ToolCall("alert", arguments))


def feature(draw: Draw, lang: str) -> Draft:
    """Switch one feature of a camera and leave another alone."""
    camera, state = draw_camera(draw), draw.choice(SWITCH)
    wanted, other = draw.sample(FEATURES, 2)
    words = {"feature": wanted.name(lang), "other": other.name(lang), "state": state.name(lang)}
    name, text = FEATURE.render(draw, lang, {"id": camera, **words})
    return call_draft(name, text, ToolCall("switch", {"camera": camera, "feature": wanted.id, "state": state.id}))


def play(draw: Draw, lang: str) -> Draft:
    """Play back from a date and time."""
    camera, start = draw_camera(draw), draw.clock()
    date = f"{draw.integer(1, 12):02d}-{draw.integer(1, 28):02d}"
    name, text = PLAY.render(draw, lang, {"id": camera, "date": date, "start": start})
    return call_draft(name, text, ToolCall("play", {"camera": camera, "date": date, "time": start}))


def count_rule(draw: Draw, lang: str) -> Draft:
    """Take a photo only if the count in the system message satisfies the condition."""
    camera, kind = draw_camera(draw), draw.choice(OBJECTS)
    condition = draw_condition(draw, 30, 80)
    limits = {"relation": condition.relation.name(lang), "limit": condition.limit}
    name, text = COUNT_RULE.render(draw, lang, {"id": camera, "object": kind.name(lang), **limits})
    call = condition.choose(ToolCall("photo", {"camera": camera}))
    return call_draft(name, text, call, system=f"{kind.name(lang)}: {condition.reading}")


INTENTS: tuple[Intent, ...] = (record, move, alert, feature, play, count_rule, count_rule)
