"""Every kind of trial, one file each."""
