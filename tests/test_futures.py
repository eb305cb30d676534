"""Futures: values, exceptions and callbacks."""

import io
import threading

import pytest

import rushlight as torch
from rushlight.futures import Future, collect_all, wait_all


def done(value):
    future = Future()
    future.set_result(value)
    return future


def test_a_future_has_one_value():
    future = done(1)
    with pytest.raises(RuntimeError, match="only be marked completed once"):
        future.set_result(2)
    with pytest.raises(RuntimeError, match="only be marked completed once"):
        future.set_exception(ValueError("late"))
    assert future.value() == 1


def test_an_exception_that_is_set_is_raised_as_it_is():
    future = Future()
    future.set_exception(KeyError("key"))
    with pytest.raises(KeyError, match="key"):
        future.wait()


def test_an_exception_of_a_callback_is_a_runtime_error_that_names_it():
    def divide(future):
        return future.value() / 0

    following = done(3).then(divide)
    with pytest.raises(RuntimeError, match="ZeroDivisionError: division by zero") as caught:
        following.wait()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert f"{__file__}(" in str(caught.value) and ": divide" in str(caught.value)
    with pytest.raises(RuntimeError, match="takes 0 positional arguments but 1 was given"):
        done(3).then(lambda: 1).wait()


def test_collect_all_ends_when_a_callback_fails():
    never, later = Future(), Future()
    combined = collect_all([never, later.then(lambda future: 1 / 0), done(1).then(lambda f: 1 / 0)])
    threading.Thread(target=later.set_result, args=(1,)).start()
    with pytest.raises(RuntimeError, match="division by zero"):
        combined.wait()
    with pytest.raises(RuntimeError, match="division by zero"):
        wait_all([never, done(1).then(lambda future: 1 / 0)])
    assert wait_all((done(1), done(2))) == [1, 2]
    assert wait_all([]) == []


def test_what_is_no_future_is_told():
    for call in (torch.jit.wait, lambda nothing: wait_all([nothing])):
        with pytest.raises(RuntimeError, match="Future can't be None"):
            call(None)
    with pytest.raises(TypeError, match="expected a Future at index 1: got int"):
        collect_all([done(1), 2])


def test_a_future_is_not_saved():
    with pytest.raises(RuntimeError, match="Can not pickle torch.futures.Future"):
        torch.save(done(1), io.BytesIO())
