import inspect
import subprocess
import sys

import pytest

import kohort


@pytest.mark.parametrize("name", kohort.__all__)
def test_public_names_are_importable(name):
    assert getattr(kohort, name) is not None


def test_import_of_kohort_loads_neither_sockets_nor_arrow():
    code = "import sys, kohort; print(sorted({'asyncio', 'socket', 'numpy', 'pyarrow'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_unknown_name_in_kohort_raises_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Consumers'"):
        kohort.Consumers  # noqa: B018  # reading it is the test


ADMIN_CALLS = [name for name, call in vars(kohort.AsyncAdmin).items()
               if inspect.iscoroutinefunction(call) and not name.startswith("_")]  # fmt: skip


@pytest.mark.parametrize("name", ADMIN_CALLS)
def test_each_async_admin_method_has_a_blocking_method_with_the_same_signature(name):
    blocking = getattr(kohort.Admin, name)
    assert not inspect.iscoroutinefunction(blocking)
    assert inspect.signature(blocking) == inspect.signature(getattr(kohort.AsyncAdmin, name))
    assert blocking.__doc__
    assert blocking.__qualname__ == f"Admin.{name}"
