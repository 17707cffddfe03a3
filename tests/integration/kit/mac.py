# SPDX-License-Identifier: Apache-2.0
"""The programs for macOS as far as Linux can run them (tests/tools/meson.build)."""
import shutil

PROGRAMS = ("bailey", "bailey-gateway", "bailey-vault", "bailey-probe")


def beside_each_other(build, place, programs=PROGRAMS):
    """As they lie on a Mac; `bailey` of them."""
    place.mkdir(exist_ok=True)
    for name in programs:
        shutil.copy(build / f"tests/tools/{name}-as-macos", place / name)
    return place / "bailey"


def profile_env(tmp_path):
    """Nothing is confined here: the profile is written to this file (tests/tools/os_fake.c)."""
    return {"BAILEY_FAKE_PROFILE": str(tmp_path / "profile.sb")}
