"""Draws the autograd graph behind a tensor: what backward walks, from the tensor to the leaves."""

from html import escape

BOX_WIDTH, BOX_HEIGHT, GAP_X, GAP_Y = 230, 28, 16, 26


def followers(node):
    return [following for following, _ in node.next_functions if following is not None]


def walk(tensor):
    """The graph's nodes, each after all nodes that lead to it."""
    finished, seen = [], set()
    stack = [(tensor.grad_fn, False)]
    while stack:
        node, done = stack.pop()
        if done:
            finished.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack += [(following, False) for following in followers(node)]
    return finished[::-1]


def graph_picture(tensor, names=None):
    """The graph of `tensor` as SVG text. `names` maps names to leaf tensors (named_parameters)."""
    nodes = walk(tensor)
    leaf_names = {id(leaf): name for name, leaf in (names or {}).items()}

    rank = dict.fromkeys(nodes, 0)  # the longest way from the tensor
    height = dict.fromkeys(nodes, 0)  # the longest way to a leaf
    for node in nodes:
        for following in followers(node):
            rank[following] = max(rank[following], rank[node] + 1)
    for node in reversed(nodes):
        height[node] = max((height[following] + 1 for following in followers(node)), default=0)

    place, filled = {}, {}
    for node in sorted(nodes, key=height.get, reverse=True):  # the long way down stays in column 0
        column = filled.get(rank[node], 0)
        filled[rank[node]] = column + 1
        place[node] = (
            GAP_X + column * (BOX_WIDTH + GAP_X),
            GAP_Y + rank[node] * (BOX_HEIGHT + GAP_Y),
        )

    lines = []
    edges = [(place[node], place[following]) for node in nodes for following in followers(node)]
    for (x1, y1), (x2, y2) in edges:
        lines.append(
            f'<line x1="{x1 + BOX_WIDTH / 2}" y1="{y1 + BOX_HEIGHT}" '
            f'x2="{x2 + BOX_WIDTH / 2}" y2="{y2}" stroke="#888"/>'
        )
    for node, (x, y) in place.items():
        leaf = getattr(node, "variable", None)
        label, fill = node.name(), "#e8eef7"
        if leaf is not None:
            label, fill = leaf_names.get(id(leaf), "leaf") + f" {list(leaf.shape)}", "#e3f4e1"
        lines.append(
            f'<rect x="{x}" y="{y}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="5" '
            f'fill="{fill}" stroke="#666"/>'
            f'<text x="{x + BOX_WIDTH / 2}" y="{y + 18}" text-anchor="middle">'
            f"{escape(label)}</text>"
        )
    total_width = max(x for x, _ in place.values()) + BOX_WIDTH + GAP_X
    total_height = max(y for _, y in place.values()) + BOX_HEIGHT + GAP_Y
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{total_width}" height="{total_height}" '
        'font-family="sans-serif" font-size="12">\n' + "\n".join(lines) + "\n</svg>\n"
    )
