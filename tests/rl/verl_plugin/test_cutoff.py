from __future__ import annotations

from venus_rl.verl_plugin.cutoff import FinishedEpisodes


def test_a_share_of_the_whole_batch_ends_the_wait() -> None:
    counter = FinishedEpisodes(episodes=10, share=0.9)
    for _ in range(8):
        counter.finished(3)
    assert not counter.reached(3)
    counter.finished(3)
    assert counter.reached(3)


def test_every_step_counts_anew_and_late_news_of_an_old_one_is_ignored() -> None:
    counter = FinishedEpisodes(episodes=2, share=0.5)
    counter.finished(1)
    assert counter.reached(1)
    assert not counter.reached(2)
    counter.finished(2)
    counter.finished(1)
    assert counter.reached(2)
    assert not counter.reached(1)
