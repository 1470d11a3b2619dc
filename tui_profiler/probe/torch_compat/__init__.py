"""Every private name of torch that is used, and what differs between releases."""
