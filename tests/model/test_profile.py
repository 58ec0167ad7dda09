from __future__ import annotations

from threading import Barrier, Thread

from npu_advisor.model.profile import Profile, ProfileInfo
from npu_advisor.model.table import Table


def test_a_table_that_two_threads_ask_for_is_computed_once() -> None:
    profile, made, found = Profile(ProfileInfo(path="x"), {}), [], []
    first = Barrier(2, timeout=60)

    def compute(_: Profile) -> Table:
        made.append(1)
        first.wait()
        return Table.build("idle", {"start_ns": [1], "dur_ns": [2]})

    profile.register({"idle": compute})
    threads = [Thread(target=lambda: found.append(profile.table("idle"))) for _ in range(2)]
    threads[0].start()
    while not made:
        pass
    threads[1].start()
    first.wait()
    for thread in threads:
        thread.join()
    assert made == [1]
    assert found[0] is found[1]


def test_a_table_may_be_computed_from_another() -> None:
    profile = Profile(ProfileInfo(path="x"), {})
    exposed = Table.build("exposed", {"start_ns": [1], "dur_ns": [2]})
    profile.register({"idle": lambda asked: asked.table("exposed"), "exposed": lambda _: exposed})
    assert profile.table("idle") is exposed
