"""Which figures a JSON report can have, by path: what a check may name before there is a report.

A list's place is ``[]``. They are those of ``docs/report.schema.json``, as a test checks.
"""

from __future__ import annotations

from functools import lru_cache

_PATHS = """
AP unavailable
: schema model type source weights device training batch other_models[] torch_child_processes[]
  total_parameters
  total_parameter_bytes
  total_macs total_flops total_memory arithmetic_intensity architecture
environment: python torch torchvision cuda cpu cores threads memory_bytes
mode: name why autograd[] backward_passes backward_passes_reached backward_pass_s
sandbox: kind landlock_abi denied[] lacks[]
models[]: type index path parameters share shown
inputs[]: name shape[] dtype why
published: gmacs parameters
file: kind content bytes tensors checksum globals[] untrusted_globals[] problem_count hint
file.problems[]: file where what
tracer: method
tracer.attempts[]: method seconds error variant graphs graph_breaks
stages[]: stage seconds
peak_memory: parameters buffers activations workspace kv_cache total at_least at
peak_memory.alive[]: path bytes
peak_memory.coverage: tensors known_dtypes sized aliases skipped
measured_memory: peak_bytes weights_bytes inputs_bytes allocated_bytes allocations
phases[]: phase total_parameters total_parameter_bytes total_macs total_flops total_memory
  arithmetic_intensity
phases[].inputs[]: name shape[] dtype why
phases[].peak_memory: parameters buffers activations workspace kv_cache total at_least at
phases[].peak_memory.alive[]: path bytes
phases[].peak_memory.coverage: tensors known_dtypes sized aliases skipped
real_run: total_macs total_flops total_memory ops
coverage: ops costed uncosted[] bounded[]
breakdown[]: type count flops share
layer_types[]: type count parameters flops share
intensity_bands[]: band ops flops flops_share
bottlenecks.compute: ops flops_share time_share
bottlenecks.memory: ops flops_share time_share
bottlenecks.overhead: ops flops_share time_share
bottlenecks.unexplained: ops flops_share time_share
layers[]: name path kind type depth calls parameters macs flops uncosted bounded memory
  input_bytes weight_bytes output_bytes output_shape[] arithmetic_intensity bottleneck
  bottleneck_measured bottleneck_on_paper
layers[].measured_memory: allocated_bytes peak_bytes
layers[].timing: calls mean_s p50_s p95_s max_s self_s per_forward_s share self_mean_s
  total_mean_s
layers[].energy: provenance joules low high replays closure
latency: p50_s p95_s mean_s forwards warmup_forwards cold as_traced other_forwards
  other_time_share
throughput: per_s provenance
overhead: ratio interval[] pairs
hardware.ceilings: device threads bytes_per_s op_s measured_at why_no_caches waits_from busy_cores
hardware.ceilings.compute[]: dtype flops_per_s quality why_not_good busy measured_at raised_by
  scaled
hardware.ceilings.memory: quality why_not_good busy measured_at raised_by scaled
hardware.ceilings.operator: quality why_not_good busy measured_at raised_by scaled
hardware.ceilings.caches[]: level bytes bytes_per_s quality why_not_good busy measured_at raised_by
  scaled
hardware.caches[]: level bytes cores count
hardware.sample: core_utilisation[] frequency_hz memory_bytes memory_total_bytes process_bytes
  process_peak_bytes process_cores process_threads parallel_efficiency package_w
hardware.sample.traffic: disk_read_bytes_per_s disk_written_bytes_per_s
  network_received_bytes_per_s network_sent_bytes_per_s process_read_bytes_per_s
  process_written_bytes_per_s voluntary_switches_per_s involuntary_switches_per_s
hardware.sample.counters: seconds instructions cycles cache_references cache_misses
  last_level_loads last_level_misses instructions_per_cycle cache_miss_share
  last_level_miss_share counted_share
hardware.sample.allocators[]: device allocated_bytes reserved_bytes inactive_split_bytes
  peak_allocated_bytes peak_reserved_bytes retries out_of_memory fragmentation
hardware.sample.gpus[]: name index uuid cuda_index utilisation memory_bytes memory_total_bytes
  temperature_celsius power_w power_limit_w clock_hz power_instant_w power_average_w module_w
  memory_w energy_j memory_clock_hz pcie_sent_bytes_per_s pcie_received_bytes_per_s
  pcie_generation pcie_width throttled_by
hardware.sample.gpus[].processes[]: pid memory_bytes utilisation
hardware.sample.gpus[].mig[]: name uuid cuda_index memory_bytes memory_total_bytes
energy.forward: counter provenance seconds steps forwards joules joules_per_item watts
  idle_watts above_idle_joules flops_per_joule co2_g
energy.on_paper: provenance low_joules high_joules low_co2_g high_co2_g coefficients
energy.counters[]: of name provenance watts idle_watts limit_w stopped
energy.counters[].running: seconds joules steps forwards
energy.counters[].idle: seconds joules steps forwards
energy: grid_g_per_kwh grid_named
parameters: bytes_read is_random is_whole left_out seconds tensors_looked_at weights why
parameters.modules[]: bytes count dead entropy_bytes infinities kurtosis l1 l2
  largest_spectral_norm looked_at maximum mean minimum nans near_duplicates near_zeros outliers
  path pressed_bytes prunable recommended_bytes skewness std tensors zeros
parameters.tensors[]: alignment bytes dtype is_buffer is_contiguous missing name owner shape[]
  shared_with storage_bytes why_none
parameters.tensors[].channels: compared count dead first_outliers[] head_norms[] heads
  near_duplicates norms[] outliers size
parameters.tensors[].channels.pruned[]: channels loss
parameters.tensors[].compression: bound codec entropy_bits planes_ratio ratio
parameters.tensors[].compression.sampled: of values
parameters.tensors[].histogram: counts[] edges[] entropy_bits
parameters.tensors[].moments: count infinities kurtosis l1 l2 maximum mean minimum nans
  near_zero_below near_zeros skewness sparsity std zeros
parameters.tensors[].pruned[]: loss sparsity
parameters.tensors[].quantised[]: bits format granularity group sqnr_db
parameters.tensors[].quantised_on: of values
parameters.tensors[].spectral: columns iterations method norm rows tolerance
parameters.tensors[].width: bits error format granularity saved_bytes why
findings: checks withheld[]
findings.found[]: kind title why paths[] trial why_no_trial holds_in[]
findings.found[].evidence[]: what value unit provenance
findings.found[].gains[]: of share formula provenance is_bound
failure: stage what where at why likely bad_argument
failure.remedies[]: command result
"""
"""By what they are in: its path, then the names; a line that goes on is indented."""


@lru_cache(maxsize=1)
def known_paths() -> tuple[str, ...]:
    """Give every path to a single figure or word: ``latency.p50_s``, ``layers[].macs``."""
    found: list[str] = []
    for line in _PATHS.strip("\n").replace("\n  ", " ").splitlines():
        parent, _, names = line.partition(": ")
        found += [f"{parent}.{name}" if parent else name for name in names.split()]
    return tuple(found)
