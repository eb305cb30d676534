"""Streams and events of devices that run an operation when it is called."""

import pytest

import rushlight


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_a_stream_is_idle(device):
    stream = rushlight.Stream(device)
    assert stream.query() and stream.synchronize() is None and not stream.is_capturing()
    assert stream.device == rushlight.device(device) and stream.device_index == -1
    assert (stream.stream_id, stream.device_type) == (0, {"cpu": 0, "meta": 14}[device])
    assert stream == rushlight.Stream(device=device, priority=-1)
    assert hash(stream) == hash(rushlight.Stream(device))
    assert stream != rushlight.Stream({"cpu": "meta", "meta": "cpu"}[device]) and stream != 0
    with stream as entered:
        assert entered is stream
    assert repr(stream) == (f"torch.Stream device_type={device}, device_index=-1, stream_id=0")


def test_a_stream_by_its_numbers():
    stream = rushlight.Stream(stream_id=0, device_index=-1, device_type=0)
    assert stream == rushlight.Stream("cpu")
    with pytest.raises(TypeError, match="belong together"):
        rushlight.Stream(stream_id=0)
    with pytest.raises(RuntimeError, match="devices of type 99"):
        rushlight.Stream(stream_id=0, device_index=0, device_type=99)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_there_are_no_events_to_record(device):
    stream, event = rushlight.Stream(device), rushlight.Event(device)
    assert event.query() and event.wait() is None and event.synchronize() is None
    assert event.wait(stream) is None and stream.wait_event(event) is None
    for call in (
        stream.record_event,
        lambda: stream.record_event(event),
        lambda: stream.wait_stream(stream),
        event.record,
        lambda: event.record(stream),
    ):
        with pytest.raises(RuntimeError, match=f"{device} backend doesn't support events"):
            call()
    with pytest.raises(RuntimeError, match="native handle"):
        stream.native_handle  # noqa: B018


def test_times_of_events():
    with pytest.raises(ValueError, match="enable_timing=True"):
        rushlight.Event("cpu").elapsed_time(rushlight.Event("cpu"))
    timed = rushlight.Event("cpu", enable_timing=True, blocking=True)
    assert repr(timed).endswith("event_flag=1, event_id=0")
    with pytest.raises(ValueError, match="must be recorded"):
        timed.elapsed_time(timed)


def test_events_of_several_processes():
    with pytest.raises(NotImplementedError, match="interprocess"):
        rushlight.Event("cpu", interprocess=True)
    with pytest.raises(NotImplementedError, match="ipc"):
        rushlight.Event("cpu").ipc_handle()
    with pytest.raises(NotImplementedError, match="ipc"):
        rushlight.Event.from_ipc_handle("cpu", b"")


def test_arguments():
    for call, text in (
        (lambda: rushlight.Stream(1.5), "'device'"),
        (lambda: rushlight.Stream("cpu", priority=1.5), "'priority'"),
        (lambda: rushlight.Stream("cpu", 0), "positional"),
        (lambda: rushlight.Stream("cpu", other=0), "other"),
        (lambda: rushlight.Event("cpu", enable_timing=1), "enable_timing"),
        (lambda: rushlight.Stream("cpu").wait_event(3), "wait_event"),
        (lambda: rushlight.Event("cpu").record(3), "record"),
    ):
        with pytest.raises(TypeError, match=text):
            call()


def test_those_of_a_gpu_are_streams_and_events_too():
    assert issubclass(rushlight.cuda.Stream, rushlight.Stream)
    assert issubclass(rushlight.cuda.Event, rushlight.Event)
    if rushlight.cuda.is_available():
        stream = rushlight.Stream("cuda", priority=-1)
        assert type(stream) is rushlight.cuda.Stream and stream.priority == -1
        assert stream.device == rushlight.device("cuda", 0) and stream.device_type == 1
        assert stream.native_handle == stream.cuda_stream and not stream.is_capturing()
        same = rushlight.Stream(stream_id=stream.stream_id, device_index=0, device_type=1)
        assert same == stream
        event = stream.record_event(rushlight.Event("cuda:0", enable_timing=True))
        event.synchronize()
        assert event.query() and event.device == stream.device and event.event_id
    else:
        with pytest.raises(AssertionError, match="CUDA is not available"):
            rushlight.Stream("cuda")
        with pytest.raises(AssertionError, match="CUDA is not available"):
            rushlight.Event("cuda")
        with pytest.raises(RuntimeError, match="none is available"):
            rushlight.Stream(0)
