"""Every key and command, once: bindings, footer, help and palette are made from it."""
