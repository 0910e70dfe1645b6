"""Which files of a tree are source of the tree itself."""

import os
from pathlib import Path

from codesearch.tree import source_files


def found(top: Path) -> list[str]:
    """Paths below `top`."""
    return [os.path.relpath(path, top) for folder in source_files(top) for path in folder]


def test_source_is_found_and_what_is_not_the_trees_own_is_left_out(tmp_path: Path) -> None:
    """Environments and caches are larger than most trees: an index full of them finds nothing."""
    wanted = ["a.py", "package/b.py", "package/deep/c.pyi"]
    others = ["x.txt", ".hidden.py", ".venv/d.py", "package/__pycache__/e.py", "site-packages/f.py", "folder.py/x.c"]
    for name in wanted + others:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert sorted(found(tmp_path)) == wanted


def test_links_to_folders_are_not_followed(tmp_path: Path) -> None:
    """A link to the folder above would be walked for ever."""
    (tmp_path / "a.py").touch()
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "pipe.py").parent.mkdir(exist_ok=True)
    os.mkfifo(tmp_path / "pipe.py")  # reading one waits for a writer that never comes
    (tmp_path / "b.py").symlink_to("nowhere")
    assert found(tmp_path) == ["a.py"]


def test_a_folder_that_is_not_there_has_no_files(tmp_path: Path) -> None:
    """One that vanishes while the tree is walked must not end the walk."""
    assert list(source_files(tmp_path / "gone")) == [[]]
