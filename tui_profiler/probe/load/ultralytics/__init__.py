"""YOLO models of Ultralytics."""
