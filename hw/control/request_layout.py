"""A request to a kernel, as the hardware sees it."""

from amaranth.lib import data

from muntin.contract.opencl import REQUEST_BITS, REQUEST_FIELDS


class RequestLayout(data.FlexibleLayout):
    """The fields of `muntin.contract.opencl.REQUEST_FIELDS`."""

    def __init__(self):
        super().__init__(REQUEST_BITS, {field.name: data.Field(field.bits, field.lsb) for field in REQUEST_FIELDS})
