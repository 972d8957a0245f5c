"""Work on many things with several threads, results in the order of the things."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Thing = TypeVar("Thing")
Result = TypeVar("Result")


def side_by_side(
    work: Callable[[Thing], Result], things: Iterable[Thing], threads: int
) -> Iterator[Result]:
    """Give work(thing) for each thing; a few are begun ahead of the one that is waited for.

    Things are taken one by one, so there may be any number. Who leaves early does not wait for
    those that have not been begun.
    """
    pool = ThreadPoolExecutor(threads)
    ahead: deque[Future[Result]] = deque()
    try:
        for thing in things:
            ahead.append(pool.submit(work, thing))
            if len(ahead) > 2 * threads:  # enough that no thread waits for the one that takes
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
