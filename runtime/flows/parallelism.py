"""Parallelism: how many lanes a stage with `parallel="auto"` has, found by trying. Pure; one thread at a time.

Hill climbing on throughput, as SEDA's thread pool controller (Welsh, 2001). While chunks wait, the stage runs for a period with
another number of lanes, and the larger number is kept only if it pays. The ratio of waiting to CPU time was not chosen: it sees
no difference between a device that serves any number at a time and one that is full. With 10 % of noise, all seeds end at 1
where the function computes, at all threads where it blocks, and within a quarter of the best where a device serves a few at a
time (tests/runtime/flows/test_parallelism.py). A change of the load is followed within 80 periods. A settled stage spends one
or two periods in `REST_MAX` with lanes too many, or too few.
"""

from __future__ import annotations

#: The shortest period. Shorter than the pauses of a garbage collection or of a neighbour, it would measure these.
PERIOD_NS = 250_000_000
#: Chunks of each lane in a period, at least: fewer, and the noise of one chunk is that of the period.
ROUNDS_MIN = 4
#: The share of a proportional gain that further lanes must bring, and the share below which they are given up. Between the two
#: nothing changes, so that noise moves nothing. With 0, a stage that computes would hold all threads of its backplane.
PAYS, PAYS_NO_MORE = 0.3, 0.15
#: How far a gain must be from these, after one pair of periods, two and three. Periods with 10 % of noise differ by up to 20 %.
MARGINS = (0.2, 0.1, 0.0)
#: Periods between two trials that brought nothing: doubled from 1, so that a settled stage is seldom disturbed.
REST_MAX = 16
#: More than before by so much, where further lanes have emptied the queues: there was work for them, and not more.
SERVED_ALL = 0.1
#: Lanes that run for less of the time are held up by something else: threads, the next stage, or a lack of items.
BUSY_MIN = 0.5


class Parallelism:
    """The number of lanes of one stage in one process."""

    def __init__(self) -> None:
        #: Lanes at present, those of a trial included.
        self.limit = 1
        self._kept = 1
        # The trial: rates with `_kept` lanes and with those of the candidate. No candidate: no trial.
        self._candidate = 0
        self._kept_rates: list[float] = []
        self._tried_rates: list[float] = []
        # What is tried next, and how many periods later.
        self._is_upward = True
        self._is_fine = False
        self._failures = 0
        self._rest = 0
        self._rest_next = 1
        # The present period. While `_settling`, chunks end that were sent before the limit changed.
        self._settling = 0
        self._began_ns: int | None = None
        self._items = self._chunks = self._followed = self._run_ns = 0

    def ran(self, items: int, run_ns: int, *, lane: int, is_followed: bool, most: int, now_ns: int) -> None:
        """A chunk has been processed, in `run_ns`; afterwards `limit` may be another.

        `lane`: its number, from 0. `is_followed`: whether another chunk waits in this lane. `most`: threads that there are.
        """
        if self.limit > most or self._kept > most:
            self._give_up(min(self._kept, most))
        if lane >= self.limit or self._began_ns is None:  # a lane that was taken away serves what it had
            self._begin_period(now_ns)
            return
        if self._settling:
            self._settling -= 1
            self._begin_period(now_ns)
            return
        self._items += items
        self._chunks += 1
        self._run_ns += run_ns
        self._followed += is_followed
        wall_ns, lanes = now_ns - self._began_ns, self.limit
        # Whole rounds: lanes in step end together, and a period that had cut a round would have gained or lost chunks.
        if wall_ns < PERIOD_NS or self._chunks < ROUNDS_MIN * lanes or self._chunks % lanes:
            return
        is_full = 2 * self._followed >= self._chunks and self._run_ns >= BUSY_MIN * lanes * wall_ns
        rate = self._items / wall_ns
        self._begin_period(now_ns)
        self._after(rate, is_full=is_full, most=most)

    # -- steps --------------------------------------------------------------------------------------------------------

    def _begin_period(self, now_ns: int) -> None:
        self._began_ns = now_ns
        self._items = self._chunks = self._followed = self._run_ns = 0

    def _after(self, rate: float, *, is_full: bool, most: int) -> None:
        """A period has ended."""
        if not self._candidate:
            self._rest -= is_full
            if is_full and self._rest < 0:
                self._try_next(rate, most)
        elif self.limit == self._kept:
            if is_full:
                self._kept_rates.append(rate)
                self._change(self._candidate)
            else:
                self._give_up(self._kept)
        else:
            self._tried_rates.append(rate)
            verdict = self._verdict(is_full=is_full)
            if verdict is None:
                self._change(self._kept)
            elif verdict:
                self._kept, self._rest_next, self._failures, self._is_fine = self._candidate, 1, 0, False
                self._try_next(_mean(self._tried_rates), most)
            else:
                self._failed(most)

    def _try_next(self, rate: float, most: int) -> None:
        """Begin a trial, upward or downward, unless there is neither."""
        self._candidate = 0
        for _ in range(2):
            step = max(1, self._kept // (8 if self._is_fine else 2 if self._is_upward else 3))
            candidate = min(most, self._kept + step) if self._is_upward else max(1, self._kept - step)
            if candidate != self._kept:
                self._candidate, self._kept_rates, self._tried_rates = candidate, [rate], []
                self._change(candidate)
                return
            self._turn()
        self._rest = REST_MAX

    def _verdict(self, *, is_full: bool) -> bool | None:
        """Whether the candidate is better; None: not certain yet."""
        kept, tried = _mean(self._kept_rates), _mean(self._tried_rates)
        if not is_full:
            return self._is_upward and tried >= kept * (1 + SERVED_ALL)
        if self._is_upward:
            gain, aim = tried / kept - 1, PAYS * (self._candidate / self._kept - 1)
        else:
            gain, aim = kept / tried - 1, PAYS_NO_MORE * (self._kept / self._candidate - 1)
        if abs(gain - aim) < MARGINS[len(self._tried_rates) - 1]:
            return None
        return (gain >= aim) == self._is_upward

    def _failed(self, most: int) -> None:
        """The candidate is no better: try the other direction, or rest if that has failed, too."""
        rate = _mean(self._kept_rates)
        self._failures += 1
        is_upward = self._is_upward
        self._turn()
        has_other = self._kept > 1 if is_upward else self._kept < most
        self._give_up(self._kept)
        if has_other and self._failures == 1:
            self._try_next(rate, most)
            return
        self._failures = 0
        self._rest, self._rest_next = self._rest_next, min(REST_MAX, 2 * self._rest_next)

    def _turn(self) -> None:
        """Try the other direction next; with finer steps each second time."""
        self._is_upward = not self._is_upward
        self._is_fine ^= self._is_upward

    def _give_up(self, lanes: int) -> None:
        """End a trial: go on with `lanes`."""
        self._candidate, self._kept = 0, lanes
        self._change(lanes)

    def _change(self, lanes: int) -> None:
        self._settling = max(self.limit, lanes) if lanes != self.limit else 0
        self.limit = lanes


def _mean(rates: list[float]) -> float:
    return sum(rates) / len(rates)
