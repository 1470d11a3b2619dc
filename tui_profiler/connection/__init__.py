"""How the halves reach each other: bytes of messages, and sockets to be found at."""
