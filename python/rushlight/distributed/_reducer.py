"""Gradients of several processes become their mean while backward still runs: the work of
DistributedDataParallel.

Parameters are divided into buckets. When all gradients of a bucket are there, it is reduced, behind
those before it; when the last one is ready, backward waits for all and puts the results in place.
"""

from __future__ import annotations

import rushlight
from rushlight._set_module import set_module
from rushlight.autograd.graph import get_gradient_edge
from rushlight.distributed import _collectives as collectives, _objects as objects
from rushlight.distributed._process_group import host_tensors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from rushlight.distributed import ProcessGroup

_FIRST_BUCKET_BYTES = 1 << 20  # small, so that the first reduction begins early


class _Derived:
    """The Work of a program's own group, whose class may define `wait` and `get_future` alone."""

    def __init__(self, work: Any, timeout: Any) -> None:
        self._work, self._timeout = work, timeout

    def wait(self) -> Any:
        """Wait, and return the tensors."""
        self._work.wait(self._timeout)
        return self._work.get_future().value()


class GradBucket:
    """What a communication hook gets: some gradients, one behind the other in one tensor."""

    def __init__(self, bucket: Any, index: int, is_last: Any) -> None:
        self._bucket, self._index, self._is_last = bucket, index, is_last

    def index(self) -> Any:
        """The number of the bucket."""
        return self._index

    def buffer(self) -> Any:
        """The gradients as one tensor of one dim."""
        return self._bucket.buffer

    def set_buffer(self, buffer: Any) -> None:
        """Take another tensor instead."""
        self._bucket.buffer = buffer

    def gradients(self) -> Any:
        """The gradients as views of the buffer."""
        return self._bucket.views_of(self._bucket.buffer)

    def parameters(self) -> Any:
        """Whose gradients they are."""
        return list(self._bucket.parameters)

    def is_last(self) -> Any:
        """Is it the last of this backward pass?"""
        return self._is_last


set_module("rushlight.distributed", GradBucket)


class _Bucket:
    """Some parameters of one dtype, and memory for their gradients."""

    def __init__(self, indices: Sequence[int], parameters: Any, is_sparse: Any) -> None:
        self.indices, self.parameters, self.is_sparse = indices, parameters, is_sparse
        self.counts = [parameter.numel() for parameter in parameters]
        self.buffer = self.views = self.shared = None
        self.pending, self.future = len(indices), None

    def share(self, group: ProcessGroup | None) -> None:
        """Get memory that the other members of the group see, if they are on this machine."""
        if not self.is_sparse and self.parameters[0].device.type == "cpu":
            shared = collectives.SharedTensor(group, sum(self.counts), self.parameters[0].dtype)
            if shared.tensor is not None:
                self.shared, self.buffer = shared, shared.tensor
                self.views = self.views_of(self.buffer)

    def allocate(self) -> None:
        """Memory, once; it is kept from one pass to the next."""
        if self.buffer is None:
            self.buffer = self.parameters[0].detach().new_zeros(sum(self.counts))
            self.views = self.views_of(self.buffer)

    def views_of(self, buffer: Any) -> Any:
        """The gradients in a tensor of one dim."""
        return [
            part.view(parameter.shape)
            for part, parameter in zip(buffer.split(self.counts), self.parameters)
        ]


def buckets_of(parameters: Any, sparse: Any, order: Any, first_bytes: Any, later_bytes: Any) -> Any:
    """Lists of indices: neighbours in `order`, of one dtype, of about so many bytes."""
    made, open_ones = [], {}
    for index in order:
        parameter = parameters[index]
        if index in sparse:
            made.append([index])
            continue
        indices, held = open_ones.setdefault(parameter.dtype, ([], [0]))
        if not indices:
            made.append(indices)
        indices.append(index)
        held[0] += parameter.numel() * parameter.element_size()
        if held[0] >= (first_bytes if made.index(indices) == 0 else later_bytes):
            del open_ones[parameter.dtype]
    return made


class Reducer:
    """Reduces the gradients of parameters.

    Args:
        parameters: those that require gradients, in the same order in all processes.
        names: theirs, for messages.
        sparse: indices of those whose gradients are sparse.
        group: the processes.
        bucket_bytes: size of the buckets but the first.
        first_bytes: size of the first.
        as_views: gradients are views of the buckets.
        find_unused: see which parameters a forward pass has used.
        static_graph: the first pass shows which are used in all.
    """

    def __init__(
        self,
        parameters: Any,
        names: Sequence[str],
        sparse: Any,
        group: ProcessGroup | None,
        bucket_bytes: Any,
        first_bytes: Any,
        as_views: Any,
        find_unused: Any,
        static_graph: Any,
    ) -> None:
        self.parameters, self.names, self.group = parameters, names, group
        self._sparse, self._as_views = sparse, as_views
        self._find_unused, self._static_graph = find_unused, static_graph
        self._first_bytes, self._bucket_bytes = first_bytes, bucket_bytes
        self._static_unused = None
        self.hook, self.hook_state = None, None
        self.reduce_dtype = None
        self.divisor = None  # by which sums are divided; the size of the group by default
        self.is_wanted = True  # False: gradients stay as they are, in no_sync
        self._expecting = False
        self._arrived, self._rebuilt = [], False
        self._unmarked: list[int] = []  # unused parameters, until the first gradient comes
        self._index = {id(parameter): i for i, parameter in enumerate(parameters)}
        self._make_buckets(list(reversed(range(len(parameters)))))
        self._handles = [
            parameter.register_post_accumulate_grad_hook(self._hook(i))
            for i, parameter in enumerate(parameters)
        ]

    def _make_buckets(self, order):
        first = _FIRST_BUCKET_BYTES if self._first_bytes is None else self._first_bytes
        lists = buckets_of(self.parameters, self._sparse, order, first, self._bucket_bytes)
        self.buckets = [
            _Bucket(indices, [self.parameters[i] for i in indices], indices[0] in self._sparse)
            for indices in lists
        ]
        for bucket in self.buckets:
            bucket.share(self.group)
        self._place = {
            index: (bucket, position)
            for bucket in self.buckets
            for position, index in enumerate(bucket.indices)
        }

    def _hook(self, index):
        def ready(parameter):
            if self._expecting:
                if self._unmarked:
                    self._mark_unused()
                self._mark_ready(index)

        return ready

    def rebuild(self) -> None:
        """Order the buckets as gradients have arrived, once; that of rank 0 is taken by all."""
        if self._rebuilt or len(self._arrived) != len(self.parameters):
            return
        self._rebuilt = True
        if self._find_unused and not self._static_graph:
            return
        order = [self._arrived]
        if self.group.size() > 1:
            objects.broadcast_object_list(order, group_src=0, group=self.group)
        self._make_buckets(order[0])

    def prepare(self, outputs: Any) -> None:
        """Get ready for the backward pass of a forward pass with these outputs."""
        if self._expecting and self._ready:
            self._complain()
        self._begin()  # once more, where the outputs before were not used
        if self._static_graph and self._static_unused is not None:
            unused = self._static_unused
        elif self._find_unused or self._static_graph:
            unused = self._unused_by(outputs)
            if self._static_graph:
                self._static_unused = unused
        else:
            unused = ()
        self._unused = set(unused)
        # With the first gradient: without one, the outputs may be of no use.
        self._unmarked = list(unused)
        if len(unused) == len(self.parameters):
            self._mark_unused()

    def _mark_unused(self):
        unmarked, self._unmarked = self._unmarked, []
        for index in unmarked:
            self._mark_ready(index)

    def _begin(self):
        self._expecting = True
        # Are gradients copied to the buckets as they are? Then a hook has little to do.
        self._copies = self.hook is None and self.reduce_dtype is None and not self._as_views
        self._ready = set()
        self._next = 0
        self._arrived = [] if not self._rebuilt else self._arrived
        for bucket in self.buckets:
            bucket.pending, bucket.future = len(bucket.indices), None

    def _complain(self):
        missing = [i for i in range(len(self.parameters)) if i not in self._ready]
        self._expecting = False
        raise RuntimeError(
            "Expected to have finished reduction in the prior iteration before starting a new "
            "one. This error indicates that your module has parameters that were not used in "
            "producing loss. You can enable unused parameter detection by passing the keyword "
            "argument `find_unused_parameters=True` to "
            "`torch.nn.parallel.DistributedDataParallel`, and by making sure all `forward` "
            "function outputs participate in calculating loss. Parameters which did not receive "
            f"grad for rank {self.group.rank()}: "
            f"{', '.join(self.names[i] for i in missing)}. Parameter indices: {missing}"
        )

    def _unused_by(self, outputs):
        """Indices of the parameters that the graph of the outputs does not reach."""
        used, seen = set(), {}  # nodes by id, kept so that no other gets the same
        waiting = [get_gradient_edge(t).node for t in tensors_in(outputs) if t.requires_grad]
        while waiting:
            node = waiting.pop()
            if id(node) in seen:
                continue
            seen[id(node)] = node
            variable = getattr(node, "variable", None)
            if variable is not None and id(variable) in self._index:
                used.add(self._index[id(variable)])
            if node.name().startswith("CheckpointFunction") and self._static_graph:
                return []  # what is within it is not in this graph
            waiting += [following for following, _ in node.next_functions if following is not None]
        return [i for i in range(len(self.parameters)) if i not in used]

    def _mark_ready(self, index):
        if index in self._ready:
            raise RuntimeError(
                "Expected to mark a variable ready only once. This error is caused by one of the "
                "following reasons: 1) Use of a module parameter outside the `forward` function. "
                "2) Reused parameters in multiple reentrant backward passes. Parameter at index "
                f"{index} with name {self.names[index]} has been marked as ready twice."
            )
        self._ready.add(index)
        if not self._rebuilt:
            self._arrived.append(index)
        bucket, position = self._place[index]
        gradient = self.parameters[index].grad
        if self._copies and bucket.shared and not self._unused and _is_plain(gradient):
            bucket.views[position].copy_(gradient)
        elif not bucket.is_sparse:
            self._fill(bucket, position, index)
        bucket.pending -= 1
        while self._next < len(self.buckets) and self.buckets[self._next].pending == 0:
            self._launch(self._next)
            self._next += 1
        if self._next == len(self.buckets):
            self._finish()

    def _fill(self, bucket, position, index):
        """Put a gradient into its bucket."""
        bucket.allocate()
        parameter, view = bucket.parameters[position], bucket.views[position]
        with rushlight.no_grad():
            if parameter.grad is None or index in self._unused:
                view.zero_()
                return
            if self.hook is None and not self._reduces_shared(bucket):
                rushlight.mul(parameter.grad, 1.0 / self._size(), out=view)  # also divides
            elif parameter.grad.data_ptr() != view.data_ptr():
                view.copy_(parameter.grad)
            if self._as_views:
                parameter.grad = view

    def _launch(self, number):
        bucket = self.buckets[number]
        if bucket.is_sparse:
            return  # when all are there: its size is not known before
        if self.hook is not None:
            shown = GradBucket(bucket, number, number == len(self.buckets) - 1)
            bucket.future = self.hook(self.hook_state, shown)
            if not isinstance(bucket.future, rushlight.futures.Future):
                raise RuntimeError(
                    "DistributedDataParallel: the hook's callback must return a "
                    f"torch.futures.Future object, but got {type(bucket.future).__name__}"
                )
            return
        if self._reduces_shared(bucket):
            bucket.future = bucket.shared.all_reduce(1.0 / self._size())
            return
        with rushlight.no_grad():
            buffer = bucket.buffer
            if self.reduce_dtype is not None:
                buffer = buffer.to(self.reduce_dtype)
        bucket.future = collectives.all_reduce(buffer, group=self.group, async_op=True)
        if self.group._is_derived:
            bucket.future = _Derived(bucket.future, self.group._timeout)

    def _reduces_shared(self, bucket):
        return bucket.shared is not None and self.hook is None and self.reduce_dtype is None

    def _size(self):
        return self.group.size() if self.divisor is None else self.divisor

    def _finish(self):
        """Wait for all buckets, and put the results in place."""
        self._expecting = False
        used = self._used_somewhere()
        with rushlight.no_grad():
            for bucket in self.buckets:
                if bucket.is_sparse:
                    self._reduce_sparse(bucket)
                else:
                    self._put(bucket, used)

    def _used_somewhere(self):
        """Which parameters at least one process has used; None: all."""
        if not (self._find_unused or self._static_graph) or self.group.size() == 1:
            return None if not self._unused else set(range(len(self.parameters))) - self._unused
        if self._static_graph and not self._unused and self._rebuilt:
            return None
        used = rushlight.ones(len(self.parameters), dtype=rushlight.int32)
        for index in self._unused:
            used[index] = 0
        with host_tensors():
            collectives.all_reduce(used, group=self.group)
        return {i for i, count in enumerate(used.tolist()) if count}

    def _put(self, bucket, used):
        reduced = bucket.future.wait()
        if reduced is True:  # a Work
            (reduced,) = bucket.future.result()
        elif isinstance(reduced, (list, tuple)):
            (reduced,) = reduced
        if reduced.data_ptr() != bucket.buffer.data_ptr():
            bucket.buffer.copy_(reduced.view(-1))
        for index, parameter, view in zip(bucket.indices, bucket.parameters, bucket.views):
            if used is not None and index not in used:
                continue  # nobody has a gradient: what there is stays
            if self._as_views:
                parameter.grad = view
            elif parameter.grad is None:
                parameter.grad = view.clone()
            else:
                parameter.grad.copy_(view)
        bucket.future = None

    def _reduce_sparse(self, bucket):
        (parameter,) = bucket.parameters
        gradient = parameter.grad
        if gradient is None:
            gradient = rushlight.sparse_coo_tensor(
                size=parameter.shape, dtype=parameter.dtype, device=parameter.device
            )
        if not gradient.is_sparse:
            gradient = gradient.to_sparse(1)
        parameter.grad = collectives.sparse_sum(gradient, self.group) / self._size()

    def shadow(self) -> None:
        """Take part in the reductions of a backward pass with nothing: the inputs have ended."""
        self.rebuild()
        self._begin()
        self._unused = set(range(len(self.parameters)))
        for bucket in self.buckets:
            for position, index in enumerate(bucket.indices):
                if not bucket.is_sparse:
                    self._fill(bucket, position, index)
        before = [parameter.grad for parameter in self.parameters]
        for parameter in self.parameters:
            parameter.grad = None
        for number in range(len(self.buckets)):
            self._launch(number)
        self._ready = set(range(len(self.parameters)))
        if not self._rebuilt:
            self._arrived = list(reversed(range(len(self.parameters))))
        self._finish()
        if not self._as_views:
            for parameter, gradient in zip(self.parameters, before):
                parameter.grad = gradient

    def remove_hooks(self) -> None:
        """Let go of the parameters."""
        for handle in self._handles:
            handle.remove()


def _is_plain(gradient):
    """Is it a gradient that no graph needs?"""
    return gradient is not None and not gradient.requires_grad


def tensors_in(thing: Any) -> Iterator[Any]:
    """All tensors in lists, tuples, dicts and dataclasses."""
    if isinstance(thing, rushlight.Tensor):
        yield thing
    elif isinstance(thing, dict):
        for value in thing.values():
            yield from tensors_in(value)
    elif isinstance(thing, (list, tuple)):
        for value in thing:
            yield from tensors_in(value)
    elif hasattr(thing, "__dataclass_fields__"):
        for name in thing.__dataclass_fields__:
            yield from tensors_in(getattr(thing, name))
