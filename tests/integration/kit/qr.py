# SPDX-License-Identifier: Apache-2.0
"""Reads a QR code off a terminal, as a camera would: by the standard, with nothing of the program that drew it."""
import re

BLOCKS = {1: (1, 19, 7), 2: (1, 34, 10), 3: (1, 55, 15), 4: (1, 80, 20), 5: (1, 108, 26), 6: (2, 68, 18), 7: (2, 78, 20), 8: (2, 97, 24), 9: (2, 116, 30)}  # level L
CENTRES = {1: [], 2: [6, 18], 3: [6, 22], 4: [6, 26], 5: [6, 30], 6: [6, 34], 7: [6, 22, 38], 8: [6, 24, 42], 9: [6, 26, 46]}
MASKS = [lambda y, x: (x + y) % 2, lambda y, x: y % 2, lambda y, x: x % 3, lambda y, x: (x + y) % 3, lambda y, x: (y // 2 + x // 3) % 2,
         lambda y, x: y * x % 2 + y * x % 3, lambda y, x: (y * x % 2 + y * x % 3) % 2, lambda y, x: ((y + x) % 2 + y * x % 3) % 2]


def modules(screen):
    """True is dark. What is light was drawn."""
    rows = []
    for line in re.sub(r"\x1b\[[\d;]*m", "", screen).replace("\r", "").split("\n"):
        if re.fullmatch("[█▀▄ ]{20,}", line):
            rows += [[c in " ▄" for c in line], [c in " ▀" for c in line]]
    dark = [(y, x) for y, row in enumerate(rows) for x, cell in enumerate(row) if cell]
    top, left, right = min(y for y, _ in dark), min(x for _, x in dark), max(x for _, x in dark)
    size = right - left + 1
    return [row[left:right + 1] for row in rows[top:top + size]]


def is_fixed(version, size, y, x):
    if y == 6 or x == 6 or (y < 9 and x < 9) or (y < 9 and x >= size - 8) or (y >= size - 8 and x < 9):
        return True
    if version >= 7 and ((y < 6 and x >= size - 11) or (x < 6 and y >= size - 11)):
        return True
    ends = (CENTRES[version] or [0])[0], (CENTRES[version] or [0])[-1]
    return any(abs(y - a) <= 2 and abs(x - b) <= 2 for a in CENTRES[version] for b in CENTRES[version]
               if (a, b) not in ((ends[0], ends[0]), (ends[0], ends[1]), (ends[1], ends[0])))


def times(a, b):
    product = 0
    while b:
        product ^= a if b & 1 else 0
        a = a << 1 ^ (0x11d if a & 0x80 else 0)
        b >>= 1
    return product


def is_whole(block, correction):
    """Every syndrome of the Reed-Solomon code is 0."""
    root = 1
    for _ in range(correction):
        value = 0
        for byte in block:
            value = times(value, root) ^ byte
        if value:
            return False
        root = times(root, 2)
    return True


def read(screen):
    grid = modules(screen)
    size, version = len(grid), (len(grid) - 17) // 4
    places = [(8, 0), (8, 1), (8, 2), (8, 3), (8, 4), (8, 5), (8, 7), (8, 8), (7, 8), (5, 8), (4, 8), (3, 8), (2, 8), (1, 8), (0, 8)]
    word = int("".join(str(int(grid[y][x])) for y, x in places), 2) ^ 0x5412
    assert word >> 13 == 1, "level L"
    inverts = MASKS[word >> 10 & 7]
    bits, up, right = [], True, size - 1
    while right > 0:
        right -= right == 6
        for y in range(size - 1, -1, -1) if up else range(size):
            bits += [grid[y][x] ^ (inverts(y, x) == 0) for x in (right, right - 1) if not is_fixed(version, size, y, x)]
        up, right = not up, right - 2
    stream = [int("".join(str(int(b)) for b in bits[i:i + 8]), 2) for i in range(0, len(bits) - 7, 8)]
    n, data, correction = BLOCKS[version]
    blocks = [stream[b:n * data:n] + stream[n * data + b:n * (data + correction):n] for b in range(n)]
    assert all(is_whole(block, correction) for block in blocks)
    text = "".join(f"{byte:08b}" for block in blocks for byte in block[:data])
    assert text[:4] == "0100", "bytes"
    length = int(text[4:12], 2)
    return bytes(int(text[12 + 8 * i:20 + 8 * i], 2) for i in range(length)).decode()
