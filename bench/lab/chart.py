# SPDX-License-Identifier: Apache-2.0
"""Charts as SVG, written by hand: bars of ratios and lines of growth. They are read on white and on dark pages, so they bring their own ground."""
import math
from html import escape

COLOURS = ("#0b6e4f", "#c8553d", "#33658a", "#8d6a9f", "#7a7a7a", "#b8860b")
STYLE = "<style>text{font:12px sans-serif;fill:#222}.h{font:bold 14px sans-serif}.b{font-weight:bold}.l{stroke:#ccc}.f{fill:#666}</style>"


def picture(width, height, parts):
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">', STYLE,
                      f'<rect width="{width}" height="{height}" fill="#fff"/>', *parts, "</svg>", ""])


def text(x, y, words, anchor="start", kind=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{f" class={kind!r}" if kind else ""}>{escape(words)}</text>'.replace("'", '"')


def line(x1, y1, x2, y2, style='class="l"'):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {style}/>'


def short(value):
    """1,000 and more as a person would say it."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:.3g}"


def bars(title, note, rows, limits=()):
    """rows: (group, [(name, ratio)]); a ratio of 1 is Bailey. Logarithmic: half and double are as far from 1. limits: names that are no peers."""
    height, step, left, width = 60, 17, 260, 860
    values = [ratio for _, group in rows for _, ratio in group if ratio > 0]
    if not values:
        return picture(width, 80, [text(10, 22, title, kind="h"), text(10, 50, "nothing was measured")])
    low, high = min(min(values), 0.5), max(max(values), 2)
    scale = (width - left - 70) / (math.log(high) - math.log(low))

    def x(value):
        return left + (math.log(value) - math.log(low)) * scale
    parts = [text(10, 22, title, kind="h"), text(10, 40, note, kind="f")]
    for group, entries in rows:
        height += 8
        parts.append(text(10, height + 12, group, kind="h"))
        height += step + 2
        top = height - 2
        for name, ratio in entries:
            a, b = sorted((x(1), x(ratio)))
            ours = name.startswith("bailey")
            colour = COLOURS[0] if ours else COLOURS[2] if name in limits else COLOURS[1] if ratio < 1 else COLOURS[4]
            parts += [text(left - 8, height + 11, name, "end", "b" if ours else ""), f'<rect x="{a:.1f}" y="{height}" width="{max(b - a, 3):.1f}" height="12" fill="{colour}"/>',
                      text(max(b, x(1)) + 5, height + 11, f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}")]
            height += step
        parts.append(line(x(1), top, x(1), height - 3, 'stroke="#222"'))
    return picture(width, height + 14, parts)


def ticks(low, high):
    """Round values that span both: 1, 2, 5 of each decade where these are few, else the decades."""
    def span(steps):
        values = [m * 10.0**e for e in range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 2) for m in steps]
        return [v for v in values if v >= max((x for x in values if x <= low * 1.001), default=low) and v <= min((x for x in values if x >= high * 0.999), default=high)]
    fine = span((1, 2, 5))
    return fine if len(fine) <= 8 else span((1,))


def lines(title, x_title, y_title, series):
    """series: {name: {x: y}}; both axes logarithmic, so that a straight line of slope 1 is linear growth."""
    width, height, left, top, right, bottom = 760, 380, 70, 54, 200, 46
    points = [(x, y) for each in series.values() for x, y in each.items() if x > 0 and y > 0]
    if not points:
        return picture(width, 80, [text(10, 22, title, kind="h"), text(10, 50, "nothing was measured")])
    xs, ys = ticks(min(p[0] for p in points), max(p[0] for p in points)), ticks(min(p[1] for p in points), max(p[1] for p in points))
    if len(xs) < 2:
        xs.append(xs[0] * 10)
    if len(ys) < 2:
        ys.append(ys[0] * 10)

    def place(value, axis, start, end):
        return start + (math.log10(value) - math.log10(axis[0])) / (math.log10(axis[-1]) - math.log10(axis[0])) * (end - start)

    def at(x, y):
        return place(x, xs, left, width - right), place(y, ys, height - bottom, top)
    parts = [text(10, 22, title, kind="h"), text(10, 40, y_title, kind="f"), text((left + width - right) / 2, height - 8, x_title, "middle", "f")]
    for value in xs:
        x = at(value, ys[0])[0]
        parts += [line(x, top, x, height - bottom), text(x, height - bottom + 16, short(value), "middle")]
    for value in ys:
        y = at(xs[0], value)[1]
        parts += [line(left, y, width - right, y), text(left - 6, y + 4, short(value), "end")]
    for i, (name, each) in enumerate(series.items()):
        colour, places = COLOURS[i % len(COLOURS)], [at(x, y) for x, y in sorted(each.items()) if x > 0 and y > 0]
        parts.append(f'<polyline points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in places)}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places]
        parts += [f'<rect x="{width - right + 12}" y="{top + i * 20}" width="12" height="12" fill="{colour}"/>', text(width - right + 30, top + i * 20 + 11, name)]
    return picture(width, height, parts)
