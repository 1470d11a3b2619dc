"""The LightningModule and Trainer of Lightning's introduction, with a small model."""

import tempfile

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Module(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(256, 4096), nn.ReLU(), nn.Linear(4096, 16))
        self.decoder = nn.Sequential(nn.Linear(16, 4096), nn.ReLU(), nn.Linear(4096, 256))
        self.losses: list[float] = []

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        (x,) = batch
        loss = nn.functional.mse_loss(self.decoder(self.encoder(x)), x)
        self.losses.append(loss.item())
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=1e-3)


lightning.seed_everything(0)
module = Module()
data = DataLoader(TensorDataset(torch.randn(3200, 256)), 64, shuffle=True)
with tempfile.TemporaryDirectory() as folder:
    trainer = lightning.Trainer(
        default_root_dir=folder,
        max_epochs=2,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    trainer.fit(module, data)
sums = sum(float(one.double().abs().sum()) for one in module.parameters())
print("ENDS", module.losses, sums, flush=True)
