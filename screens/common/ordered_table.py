"""What keys and clicks do to the order of a table, on every screen that has one."""

from collections.abc import Callable

from textual.binding import Binding

from ..actions.view_keys import COLUMNS, own_bindings
from ..widgets.heading import Heading, Order

LIST_BINDINGS = (
    Binding("up,k", "move(-1)", show=False),
    Binding("down,j", "move(1)", show=False),
    Binding("g,home", "move(-100000)", show=False),
    Binding("G,end", "move(100000)", show=False),
    *own_bindings(COLUMNS),
)
"""Keys of a screen that is a table alone."""


class OrderedTable:
    """A screen with a table: a number orders by that column, again the other way round.

    It says which columns there are (``table_heading``), and orders its rows (``order_by``).
    """

    def table_heading(self) -> Heading | None:
        """Return the columns as they are drawn now; None where there is no table."""
        return None

    def order_by(self, order: Order) -> None:
        """Order the rows, and draw them."""

    def order_chosen(self, choose: Callable[[Heading], Order | None]) -> bool:
        """Order the rows as is chosen of the heading; False where there is nothing to choose."""
        heading = self.table_heading()
        order = choose(heading) if heading is not None else None
        if order is not None:
            self.order_by(order)
        return order is not None

    def order_clicked(self, x: int, y: int) -> bool:
        """Order by the column whose title is clicked; False where no title is."""
        return self.order_chosen(lambda heading: heading.clicked(x, y))

    def action_sort_column(self, number: int) -> None:
        """Order by a column: 1 is the first one; by the same again, the other way round."""
        self.order_chosen(lambda heading: heading.numbered(number))

    def action_sort(self) -> None:
        """Order by the next column."""
        self.order_chosen(lambda heading: heading.following())

    def action_reverse(self) -> None:
        """Turn the order round."""
        self.order_chosen(lambda heading: heading.order.reversed)
