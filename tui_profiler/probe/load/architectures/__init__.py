"""Models by the name of an architecture: torchvision's and timm's."""
