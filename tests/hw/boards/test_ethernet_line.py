"""Settings of a board's Ethernet."""

import dataclasses

import pytest

from muntin.contract import ParameterError
from muntin.contract.boards import board

LINE = board("ecpix5").ethernet


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"ip": "192.168.1"}, "ip must be an IPv4 address such as"),
        ({"ip": "::1"}, "ip must be an IPv4 address such as"),
        ({"ip": "224.0.0.1"}, "ip must be the address of one station"),
        ({"ip": "0.0.0.0"}, "ip must be the address of one station"),
        ({"ip": "10.0.0.255"}, "ip must be the address of one station"),
        ({"port": 0}, "port must be from 1 to 65535, not 0"),
        ({"port": 65536}, "port must be from 1 to 65535, not 65536"),
        ({"mac": 0}, "mac must be the address of one station, not 0x000000000000"),
        ({"mac": 0x0150_0000_0000}, "mac must be the address of one station, not 0x015000000000"),
        ({"transmit_delay_ps": 3200}, "transmit_delay_ps must be from 0 to 3175, not 3200"),
        ({"receive_delay_ps": -1}, "receive_delay_ps must be from 0 to 3175, not -1"),
    ],
)
def test_what_cannot_be_is_refused(change, says):
    with pytest.raises(ParameterError, match=says):
        dataclasses.replace(LINE, **change)


def test_the_address_is_the_boards_own():
    assert LINE.mac >> 41 & 1, "an address that no maker has assigned says so"
