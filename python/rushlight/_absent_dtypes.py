"""The dtypes and layouts that torch has and rushlight has not: names to compare with; no tensor is
of one.
"""


class _AbsentDtype:
    """Refused where a dtype is wanted: no tensor is of this dtype here."""

    def __init__(self, name, itemsize, is_floating_point=False, is_complex=False):
        self._name, self.itemsize = name, itemsize
        self.is_floating_point, self.is_complex = is_floating_point, is_complex
        self.is_signed = not name.startswith(("uint", "quint"))

    def __repr__(self):
        return f"torch.{self._name}"

    def __reduce__(self):
        return self._name  # a name of this module


uint16 = _AbsentDtype("uint16", 2)
uint32 = _AbsentDtype("uint32", 4)
uint64 = _AbsentDtype("uint64", 8)
float8_e4m3fn = _AbsentDtype("float8_e4m3fn", 1, is_floating_point=True)
float8_e4m3fnuz = _AbsentDtype("float8_e4m3fnuz", 1, is_floating_point=True)
float8_e5m2 = _AbsentDtype("float8_e5m2", 1, is_floating_point=True)
float8_e5m2fnuz = _AbsentDtype("float8_e5m2fnuz", 1, is_floating_point=True)
float8_e8m0fnu = _AbsentDtype("float8_e8m0fnu", 1, is_floating_point=True)
complex32 = _AbsentDtype("complex32", 4, is_complex=True)
chalf = complex32
qint8 = _AbsentDtype("qint8", 1)
quint8 = _AbsentDtype("quint8", 1)
qint32 = _AbsentDtype("qint32", 4)


class _AbsentLayout:
    """Refused where a layout is wanted: no tensor has it here."""

    def __init__(self, name):
        self._name = name

    def __repr__(self):
        return f"torch.{self._name}"

    def __reduce__(self):
        return self._name


sparse_csr = _AbsentLayout("sparse_csr")
sparse_csc = _AbsentLayout("sparse_csc")
sparse_bsr = _AbsentLayout("sparse_bsr")
sparse_bsc = _AbsentLayout("sparse_bsc")
jagged = _AbsentLayout("jagged")
