"""Several sessions at once, ranks or two compared, and the only functions that change them."""

from msgspec import Struct
from msgspec.structs import replace

from tui_profiler.messages import Message, Program
from tui_profiler.session.apply import apply
from tui_profiler.session.state import EMPTY, History, Session


class Rank(Struct, frozen=True, eq=False):
    """One process of a run, and everything learned of it."""

    key: str
    """Tells it from every other process, also of the same rank."""
    program: Program
    session: Session = EMPTY

    @property
    def number(self) -> int:
        """Its rank; -1 where it has none."""
        return -1 if self.program.rank is None else self.program.rank

    @property
    def is_gone(self) -> bool:
        """Whether it hung up."""
        return self.session.ended is not None


class SessionGroup(Struct, frozen=True, eq=False):
    """The ranks of one run that were found, by rank; or the two that are compared."""

    ranks: tuple[Rank, ...] = ()
    compared: tuple[Session, ...] = ()
    """A and B."""

    @property
    def expected(self) -> int:
        """Number of ranks of the run, as reported."""
        return max((rank.program.ranks or 0 for rank in self.ranks), default=0)

    def rank(self, key: str) -> Rank | None:
        """Return the rank with that key."""
        return next((rank for rank in self.ranks if rank.key == key), None)


NO_RANKS = SessionGroup()


def with_rank(group: SessionGroup, key: str, program: Program) -> SessionGroup:
    """Return the group with one more process; it replaces one that has ended."""
    number = program.rank
    others = (
        rank
        for rank in group.ranks
        if rank.key != key and not (rank.is_gone and rank.program.rank == number)
    )
    ranks = sorted((*others, Rank(key, program)), key=lambda rank: (rank.number, rank.key))
    return SessionGroup(tuple(ranks))


def with_message(group: SessionGroup, key: str, message: Message) -> SessionGroup:
    """Return the group after a message of one rank; no history is kept: there may be hundreds."""
    return SessionGroup(
        tuple(
            replace(rank, session=replace(apply(rank.session, message), history=History()))
            if rank.key == key
            else rank
            for rank in group.ranks
        )
    )


def with_session(group: SessionGroup, place: int, session: Session) -> SessionGroup:
    """Return the group after something was learned of A (0) or B (1)."""
    sessions = list(group.compared)
    sessions[place] = session
    return replace(group, compared=tuple(sessions))
