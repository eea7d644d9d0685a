"""Units that answers name, with the factor to a common unit of their dimension."""

from __future__ import annotations

from typing import NamedTuple


class Unit(NamedTuple):
    """A unit: ``value * factor + offset`` is the value in the dimension's common unit."""

    dimension: str
    factor: float
    offset: float = 0.0


_TABLE: dict[str, dict[str, float]] = {
    "mass": {
        "mg 毫克 milligram milligrams": 1e-3, "g 克 gram grams": 1, "kg Kg KG 公斤 千克 kilogram kilograms": 1e3,
        "斤": 500, "t 吨 tonne tonnes": 1e6,
    },
    "length": {
        "nm 纳米": 1e-9, "µm μm um 微米": 1e-6, "mm 毫米 millimetres millimeters": 1e-3,
        "cm 厘米 centimetres centimeters": 1e-2,
        "m 米 metre metres meter meters": 1, "km 公里 千米 kilometres kilometers": 1e3,
    },
    "duration": {
        "ms 毫秒 milliseconds": 1e-3, "s 秒 sec secs second seconds": 1, "min mins 分钟 minute minutes": 60,
        "h hr hrs 小时 个小时 钟头 个钟头 hour hours": 3600, "天 day days": 86400,
        "week weeks": 604800,
    },
    "volume": {"ml mL 毫升 millilitres milliliters": 1e-3, "l L 升 litre litres liter liters": 1},
    "voltage": {"mV mv 毫伏": 1e-3, "V v 伏 volt volts": 1, "kV kv 千伏": 1e3},
    "current": {"mA ma 毫安": 1e-3, "A a 安 安培 amp amps": 1},
    "power": {
        "mW 毫瓦 milliwatt milliwatts": 1e-3, "W w 瓦 watt watts": 1, "kW kw 千瓦 kilowatt kilowatts": 1e3,
        "MW 兆瓦 megawatt megawatts": 1e6,
    },
    "energy": {"J 焦": 1, "Wh 瓦时": 3600, "kWh kwh 度电 千瓦时": 3.6e6},
    "charge": {"mAh mah 毫安时": 1e-3, "Ah 安时": 1},
    "area": {
        "mm^2 平方毫米": 1e-6, "cm^2 平方厘米": 1e-4,
        "m^2 平方米 sqm": 1, "km^2 平方公里 平方千米": 1e6,
    },
    "frequency": {"Hz hz hertz 赫兹 赫": 1, "kHz khz 千赫 千赫兹": 1e3, "MHz mhz 兆赫 兆赫兹": 1e6, "GHz ghz": 1e9},
    "pressure": {
        "Pa pa 帕": 1, "hPa hpa 百帕": 1e2, "kPa kpa 千帕": 1e3, "MPa mpa 兆帕": 1e6,
        "bar bars 巴": 1e5, "psi": 6894.757293168,
    },
    "speed": {
        "m/s 米每秒 米/秒": 1,
        "km/h kmh kph 公里每小时 千米每小时 公里/小时 千米/小时 公里/时 km/小时": 1 / 3.6, "mph 英里每小时": 0.44704,
    },
    "rotation": {"rpm 转 转每分钟 转/分钟 转/分 r/min": 1},
    "rate": {"fps 帧 帧每秒 帧/秒": 1},
    "share": {"% percent 个百分点": 1},
    "degree": {"度 degree degrees °": 1},
    "sound": {"dB db 分贝": 1},
    "light": {"lux lx 勒克斯": 1},
}  # fmt: skip

_TEMPERATURES = {
    "°C °c 摄氏度 C c celsius": Unit("temperature", 1),
    "°F °f 华氏度 F f fahrenheit": Unit("temperature", 5 / 9, -160 / 9),
    "K 开尔文": Unit("temperature", 1, -273.15),
}

UNITS: dict[str, Unit] = {
    **{
        name: Unit(dimension, factor)
        for dimension, rows in _TABLE.items()
        for names, factor in rows.items()
        for name in names.split()
    },
    **{name: unit for names, unit in _TEMPERATURES.items() for name in names.split()},
    "degrees celsius": Unit("temperature", 1),
    "degrees fahrenheit": Unit("temperature", 5 / 9, -160 / 9),
}
"""Units by the names they go by. Capitals count where they must: mW is no MW."""


# Whole words and units whose letters are those of no other, whatever their case; mHz and mPa are other units.
_FOLDED = {
    name.casefold(): unit
    for name, unit in UNITS.items()
    if name.isascii() and len(name) >= 3 and name not in ("MHz", "mhz", "MPa", "mpa")
}


def unit_named(name: str) -> Unit | None:
    """The unit that goes by a name; None if there is none, or the case of its letters leaves it open."""
    return UNITS.get(name) or _FOLDED.get(name.casefold())
