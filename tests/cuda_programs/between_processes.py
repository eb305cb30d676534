"""Tensors of GPUs in the queues of torch.multiprocessing, on the sender's memory."""

import os
import pickle
import sys

import rushlight as torch
import rushlight.multiprocessing as mp
from rushlight.multiprocessing import gpu_memory


def fill(tensors, done, go):
    """Writes to what it gets, and keeps the second until it is told."""
    first = tensors.get()
    first.add_(1)
    second = tensors.get()
    torch.cuda.synchronize()
    done.put((first.cpu().tolist(), second.tolist(), str(second.device), second.requires_grad))
    go.wait()
    view, same = second[1:], second.untyped_storage()
    del second, first
    done.put(("still", view.tolist()))
    del view, same
    done.put("gone")
    go.wait()


def shares_memory():
    context = mp.get_context("spawn")
    tensors, done, go = context.Queue(), context.Queue(), context.Event()
    process = context.Process(target=fill, args=(tensors, done, go))
    process.start()
    x = torch.zeros(4, device="cuda:1")
    y = torch.nn.Parameter(torch.arange(6.0, device="cuda:0").view(2, 3).t()[1:])
    expected = y.tolist()
    for _ in range(20):  # work that the receiver has to wait for
        x += 1
    tensors.put(x)
    tensors.put(y)
    del y
    assert done.get(timeout=120) == ([21.0] * 4, expected, "cuda:0", True)
    torch.cuda.synchronize()
    assert x.tolist() == [21.0] * 4  # its write is in our memory
    filler = [torch.full((6,), 7.0, device="cuda:0") for _ in range(10)]
    torch.cuda.ipc_collect()
    assert gpu_memory.sent.count() == 2  # kept, though our tensor is gone
    torch.cuda.empty_cache()
    go.set()
    assert done.get(timeout=120) == ("still", expected[1:])
    assert done.get(timeout=120) == "gone"
    torch.cuda.ipc_collect()
    assert gpu_memory.sent.count() == 0
    assert all(f.eq(7).all() for f in filler)
    process.join()
    assert process.exitcode == 0


def forward(inbox, outbox, event):
    """Sends on what it has received."""
    outbox.put(inbox.get())
    event.wait()


def goes_on():
    context = mp.get_context("spawn")
    inbox, outbox, event = context.Queue(), context.Queue(), context.Event()
    process = context.Process(target=forward, args=(inbox, outbox, event))
    process.start()
    x = torch.arange(5, device="cuda")
    inbox.put(x)
    back = outbox.get(timeout=120)
    assert back.tolist() == list(range(5)) and back.data_ptr() != x.data_ptr()
    back += 1
    assert x.tolist() == list(range(5))
    event.set()
    process.join()
    # To itself: the same memory again; nothing, and storages.
    queue = context.SimpleQueue()
    queue.put((x, x.new_empty(0, 3), x.untyped_storage()))
    same, nothing, storage = queue.get()
    assert same.data_ptr() == x.data_ptr() and nothing.shape == (0, 3) and nothing.is_cuda
    assert storage.data_ptr() == x.data_ptr()
    try:
        queue.put(x.float().requires_grad_() * 2)
    except RuntimeError as error:
        assert "history" in str(error)
    else:
        raise AssertionError("a tensor with history was sent")


def pickled():
    """By plain pickle and copy, which go through the host or stay on the device."""
    import copy

    x = torch.arange(3.0, device="cuda:1")
    again = pickle.loads(pickle.dumps(x))
    assert again.tolist() == [0.0, 1.0, 2.0] and str(again.device) == "cuda:1"
    model = torch.nn.Linear(2, 2).cuda()
    twin = copy.deepcopy(model)
    assert twin.weight.is_cuda and torch.equal(twin.weight, model.weight)
    assert x.untyped_storage().clone().tolist() == x.untyped_storage().tolist()
    assert torch.UntypedStorage(8, device="cuda").device == torch.device("cuda", 0)
    event = torch.cuda.Event(interprocess=True)
    event.record()
    assert len(event.ipc_handle()) == 64


if __name__ == "__main__":
    for name in sys.argv[1:] or ("shares_memory", "goes_on", "pickled"):
        globals()[name]()
        os.write(1, b"right\n")
