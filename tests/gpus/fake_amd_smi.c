/* A libamd_smi.so for machines without a GPU: two GPUs that a test can make fail.
 *
 * The fake_ functions are the test's controls; the others have the signatures and structs of
 * amdsmi.h (ROCm 7). amdsmi binds all functions of the library when it is imported: the test
 * compiles what is not here as functions that are not supported. */
#include <stdint.h>

#include "fake_failures.h"

enum { NOT_SUPPORTED = 2, NOT_INIT = 32 };

static int is_started;
static int gpu_count = 2, throttling_asked;
static double clock_seconds;

void fake_gpus(int count) { gpu_count = count; }
int fake_throttling_asked(void) { return throttling_asked; }
void fake_clock(double seconds) { clock_seconds = seconds; }

/* Handles are the number of the GPU and one more. */
static int number(void *handle) { return (int)(size_t)handle - 1; }
#define ASK(gpu) do { \
        if (!is_started) return NOT_INIT; \
        int code = wanted_code(__func__, gpu); \
        if (code) return code; \
    } while (0)

void amdsmi_free_name_value_pairs(void *pairs) { (void)pairs; }
int amdsmi_init(uint64_t flags) {
    int code = wanted_code(__func__, -1);
    if (!code && flags != 2) code = 1; /* of GPUs only */
    if (!code) is_started = 1; /* as the real one, it does not count how often */
    return code;
}
int amdsmi_shut_down(void) { ASK(-1); is_started = 0; return 0; }
int amdsmi_get_socket_handles(uint32_t *count, void **sockets) {
    ASK(-1);
    if (sockets) for (uint32_t i = 0; i < *count; i++) sockets[i] = (void *)(size_t)(i + 1);
    *count = gpu_count;
    return 0;
}
int amdsmi_get_processor_handles(void *socket, uint32_t *count, void **handles) {
    ASK(-1);
    *count = 1;
    if (handles) handles[0] = socket;
    return 0;
}

struct asic {
    char market_name[256];
    uint32_t vendor_id;
    char vendor_name[256];
    uint32_t subvendor_id;
    uint64_t device_id;
    uint32_t rev_id;
    char serial[256];
    uint32_t oam_id, compute_units;
    uint64_t version;
    uint32_t subsystem_id, reserved[21];
};
int amdsmi_get_gpu_asic_info(void *handle, struct asic *asic) {
    ASK(number(handle));
    memset(asic, 0, sizeof *asic);
    snprintf(asic->market_name, 256, "AMD Instinct Fake %d", number(handle) + 1);
    snprintf(asic->serial, 256, "12AB34CD56EF789%d", number(handle));
    return 0;
}
static const char *told_uuid;
void fake_uuid(const char *uuid) { told_uuid = uuid; }
int amdsmi_get_gpu_device_uuid(void *handle, uint32_t *length, char *uuid) {
    ASK(number(handle));
    if (told_uuid)
        snprintf(uuid, *length, "%s", told_uuid);
    else
        snprintf(uuid, *length, "aaff740%d-0000-1000-80f3-2fe4a3d1b0c8", number(handle));
    return 0;
}

struct activity { uint32_t gfx, umc, mm, reserved[13]; };
int amdsmi_get_gpu_activity(void *handle, struct activity *activity) {
    ASK(number(handle));
    activity->gfx = 64 + number(handle);
    activity->umc = 11;
    activity->mm = 0xFFFF;
    return 0;
}
int amdsmi_get_gpu_memory_usage(void *handle, int kind, uint64_t *bytes) {
    ASK(number(handle));
    if (kind != 0) return NOT_SUPPORTED; /* 0 is VRAM */
    *bytes = 7ULL << 30;
    return 0;
}
int amdsmi_get_gpu_memory_total(void *handle, int kind, uint64_t *bytes) {
    ASK(number(handle));
    if (kind != 0) return NOT_SUPPORTED;
    *bytes = 192ULL << 30;
    return 0;
}
int amdsmi_get_temp_metric(void *handle, int sensor, int metric, int64_t *celsius) {
    ASK(number(handle));
    if (metric != 0 || (sensor == 1 && number(handle))) return NOT_SUPPORTED; /* 1 is the hotspot */
    *celsius = sensor == 1 ? 71 : 55;
    return 0;
}
struct power { uint64_t socket; uint32_t current, average; uint64_t gfx, soc, mem; uint32_t limit; uint64_t reserved[18]; };
int amdsmi_get_power_info(void *handle, struct power *power) {
    ASK(number(handle));
    memset(power, 0, sizeof *power);
    power->current = number(handle) ? 0xFFFF : 430; /* each reports one of the two */
    power->average = number(handle) ? 205 : 0xFFFF;
    return 0;
}
struct cap { uint64_t cap, standard, dpm, least, most, reserved[3]; };
int amdsmi_get_power_cap_info(void *handle, uint32_t sensor, struct cap *cap) {
    ASK(number(handle));
    if (sensor != 0) return NOT_SUPPORTED;
    memset(cap, 0, sizeof *cap);
    cap->cap = 750000000;
    return 0;
}
int amdsmi_get_energy_count(void *handle, uint64_t *steps, float *resolution, uint64_t *nanoseconds) {
    ASK(number(handle));
    /* 15.3 microjoules per step, at 306 W */
    *steps = (uint64_t)(clock_seconds * 20e6);
    *resolution = 15.3f;
    *nanoseconds = (uint64_t)(clock_seconds * 1e9);
    return 0;
}
struct clock { uint32_t now, least, most; uint8_t locked, deep_sleep; uint32_t reserved[4]; };
int amdsmi_get_clock_info(void *handle, int kind, struct clock *clock) {
    ASK(number(handle));
    memset(clock, 0, sizeof *clock);
    clock->now = kind == 0 ? 2100 : kind == 4 ? 1300 : 0xFFFFFFFF; /* 0 is GFX, 4 memory */
    return 0;
}
struct pcie {
    struct { uint16_t width; uint32_t speed, version, slot, most_version; uint64_t reserved[9]; } most;
    struct {
        uint16_t width;
        uint32_t speed, bandwidth;
        uint64_t replays, recoveries, roll_overs, naks_sent, naks_received;
        uint32_t other_end;
        uint64_t reserved[12];
    } now;
    uint64_t reserved[32];
};
int amdsmi_get_pcie_info(void *handle, struct pcie *pcie) {
    ASK(number(handle));
    memset(pcie, 0, sizeof *pcie);
    pcie->now.width = 16;
    pcie->now.speed = number(handle) ? 12345 : 32000;
    return 0;
}
int amdsmi_get_gpu_fan_speed(void *handle, uint32_t sensor, int64_t *speed) {
    ASK(number(handle));
    if (sensor || !number(handle)) return NOT_SUPPORTED; /* the first has no fan */
    *speed = 102;
    return 0;
}
int amdsmi_get_gpu_fan_speed_max(void *handle, uint32_t sensor, uint64_t *speed) {
    ASK(number(handle));
    if (sensor || !number(handle)) return NOT_SUPPORTED;
    *speed = 255;
    return 0;
}
int amdsmi_get_gpu_fan_rpms(void *handle, uint32_t sensor, int64_t *speed) {
    ASK(number(handle));
    if (sensor || !number(handle)) return NOT_SUPPORTED;
    *speed = 1320;
    return 0;
}
struct errors { uint64_t corrected, uncorrected, deferred, reserved[5]; };
int amdsmi_get_gpu_total_ecc_count(void *handle, struct errors *errors) {
    ASK(number(handle));
    errors->corrected = 9;
    errors->uncorrected = 2;
    errors->deferred = 1;
    return 0;
}
struct process {
    char name[256];
    uint32_t pid;
    uint64_t memory;
    struct { uint64_t gfx, enc; uint32_t reserved[12]; } engine;
    struct { uint64_t gtt, cpu, vram; uint32_t reserved[10]; } held;
    char container[256];
    uint32_t occupancy, reserved[11];
};
int amdsmi_get_gpu_process_list(void *handle, uint32_t *count, struct process *processes) {
    ASK(number(handle));
    if (number(handle)) { *count = 0; return 0; }
    memset(processes, 0, 2 * sizeof *processes);
    *count = 2;
    processes[0].pid = 4321; processes[0].held.vram = 1ULL << 30; processes[0].memory = 9ULL << 30;
    processes[1].pid = 1234; processes[1].held.vram = 3ULL << 30;
    return 0;
}
struct violations {
    uint64_t reference, time, accumulated[7], percent[6];
    uint8_t prochot, power, socket, regulators, memory, clock;
    uint64_t per_part[8][64];
    uint8_t active[4][64];
    uint64_t reserved[3][64];
};
int amdsmi_get_violation_status(void *handle, struct violations *violations) {
    throttling_asked++; /* the real one waits for 100 ms */
    ASK(number(handle));
    if (number(handle) % 2) return NOT_SUPPORTED; /* before MI300 */
    memset(violations, 0xFF, sizeof *violations);
    violations->power = 1;
    violations->socket = 0;
    violations->memory = 1;
    return 0;
}
