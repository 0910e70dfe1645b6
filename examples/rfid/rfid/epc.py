"""EPC: the 96 bits of a tag as the URI that EPCIS uses (GS1 EPC Tag Data Standard 1.13, sections 6.3.1 and 14.5.1)."""

from __future__ import annotations

from typing import Final

_SGTIN_96: Final = 0x30
#: By partition value: bits and digits of the company prefix, and of the indicator with the item reference (table 14-2).
_PARTITIONS: Final = (
    (40, 12, 4, 1), (37, 11, 7, 2), (34, 10, 10, 3), (30, 9, 14, 4), (27, 8, 17, 5), (24, 7, 20, 6), (20, 6, 24, 7),
)  # fmt: skip
_SERIAL_BITS: Final = 38


def uri_of(epc: str) -> str:
    """The pure identity of an SGTIN-96, `urn:epc:id:sgtin:…`; of any other EPC its raw URI. `epc`: hexadecimal digits."""
    raw = f"urn:epc:raw:{4 * len(epc)}.x{epc.upper()}"
    bits = int(epc, 16)
    partition = bits >> 82 & 0b111
    if len(epc) != 24 or bits >> 88 != _SGTIN_96 or partition >= len(_PARTITIONS):
        return raw
    company_bits, company_digits, item_bits, item_digits = _PARTITIONS[partition]
    company = bits >> 82 - company_bits & (1 << company_bits) - 1
    item = bits >> _SERIAL_BITS & (1 << item_bits) - 1
    if company >= 10**company_digits or item >= 10**item_digits:
        return raw
    return f"urn:epc:id:sgtin:{company:0{company_digits}}.{item:0{item_digits}}.{bits & (1 << _SERIAL_BITS) - 1}"


def sgtin_96(company: str, item: str, serial: int) -> str:
    """The EPC of an SGTIN, as hexadecimal digits: the reverse of `uri_of`. `company` and `item` have 13 digits together."""
    partition = next(
        number for number, each in enumerate(_PARTITIONS) if (each[1], each[3]) == (len(company), len(item))
    )
    company_bits, _, item_bits, _ = _PARTITIONS[partition]
    bits = _SGTIN_96 << 6 | partition  # filter 0: all others
    for value, size in ((int(company), company_bits), (int(item), item_bits), (serial, _SERIAL_BITS)):
        bits = bits << size | value
    return f"{bits:024x}"
