"""The Trainer of the documentation's first example, with a GPT-2 that is small."""

import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

torch.manual_seed(0)
config = GPT2Config(
    vocab_size=512, n_positions=32, n_embd=128, n_layer=2, n_head=4, use_cache=False
)
model = GPT2LMHeadModel(config)
rows = torch.randint(512, (64, 32))
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        output_dir=folder,
        max_steps=160,
        per_device_train_batch_size=8,
        report_to=[],
        save_strategy="no",
        logging_steps=5,
        disable_tqdm=True,
        use_cpu=True,
    )
    data = [{"input_ids": row, "labels": row} for row in rows]
    trainer = Trainer(model=model, args=arguments, train_dataset=data)
    trainer.train()
losses = [one["loss"] for one in trainer.state.log_history if "loss" in one]
sums = sum(float(one.double().abs().sum()) for one in model.parameters())
print("ENDS", losses, sums, flush=True)
