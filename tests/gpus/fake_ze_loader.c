/* A libze_loader.so.1 for machines without a GPU: two Intel GPUs that a test can make fail, and a
 * processor, which Sysman lists too.
 *
 * The first GPU is a card with two tiles; the second one shares the machine's memory, and its driver
 * has few counters. The fake_ functions are the test's controls; the others have the signatures and
 * structs of zes_api.h (oneAPI Level Zero 1.13). */
#include <stdint.h>

#include "fake_failures.h"

enum { LOST = 0x70000001, UNSUPPORTED = 0x78000003, INVALID = 0x78000004 };
enum { PROCESSOR = 2, CPU_TYPE = 2, GPU_TYPE = 1 };

static uint64_t microseconds = 1000000;

/* The clock of all counters. */
void fake_pass(int milliseconds) { microseconds += milliseconds * 1000ULL; }

/* Handles are one more than the number of the device, and 16 times that of the domain in it. */
static int number(void *handle) { return (int)(((size_t)handle - 1) % 16); }
static int domain(void *handle) { return (int)(((size_t)handle - 1) / 16); }
#define ASK(gpu) do { int code = wanted_code(__func__, gpu); if (code) return code; } while (0)

static int list(void *of, int many, uint32_t *count, void **handles) {
    if (handles)
        for (uint32_t i = 0; i < *count && (int)i < many; i++)
            handles[i] = (void *)(size_t)(1 + number(of) + 16 * i);
    *count = many;
    return 0;
}

int zesInit(uint32_t flags) { (void)flags; ASK(-1); return 0; }
int zesDriverGet(uint32_t *count, void **drivers) { ASK(-1); return list((void *)1, 1, count, drivers); }
int zesDeviceGet(void *driver, uint32_t *count, void **devices) {
    (void)driver;
    ASK(-1);
    if (devices) for (uint32_t i = 0; i < *count; i++) devices[i] = (void *)(size_t)(i + 1);
    *count = 3;
    return 0;
}
struct core {
    int32_t stype; void *next;
    int32_t type;
    uint32_t vendor, device, flags, subdevice, clock;
    uint64_t most_allocation;
    uint32_t contexts, priority, threads, width, units, subslices, slices;
    uint64_t resolution;
    uint32_t bits, kernel_bits;
    uint8_t uuid[16];
    char name[256];
};
struct device { int32_t stype; void *next; struct core core; uint32_t subdevices; char texts[6][64]; };
static int has_no_uuid;
void fake_no_uuid(void) { has_no_uuid = 1; }
int zesDeviceGetProperties(void *handle, struct device *device) {
    ASK(number(handle));
    if (device->stype != 1) return INVALID;
    device->core.type = number(handle) == PROCESSOR ? CPU_TYPE : GPU_TYPE;
    if (!has_no_uuid) {
        device->core.uuid[0] = 0x86;
        device->core.uuid[15] = number(handle);
    }
    snprintf(device->core.name, 256, "Intel Fake GPU %d", number(handle) + 1);
    return 0;
}

/* Engines: one of all on the card, then one of compute for each tile. The second GPU has only the
 * one for rendering and compute. */
int zesDeviceEnumEngineGroups(void *handle, uint32_t *count, void **engines) {
    ASK(number(handle));
    return list(handle, number(handle) ? 1 : 3, count, engines);
}
struct engine { int32_t stype; void *next; uint32_t type; uint8_t of_tile; uint32_t tile; };
int zesEngineGetProperties(void *handle, struct engine *engine) {
    ASK(number(handle));
    if (engine->stype != 5) return INVALID;
    engine->type = number(handle) ? 11 : domain(handle) ? 1 : 0;
    engine->of_tile = domain(handle) > 0;
    return 0;
}
struct activity { uint64_t active, timestamp; };
int zesEngineGetActivity(void *handle, struct activity *activity) {
    ASK(number(handle));
    activity->active = microseconds / (number(handle) ? 5 : domain(handle) ? 1 : 4);
    activity->timestamp = microseconds;
    return 0;
}

/* Memory: two modules of 8 GiB on the card, one in the system. */
int zesDeviceEnumMemoryModules(void *handle, uint32_t *count, void **modules) {
    ASK(number(handle));
    return list(handle, number(handle) ? 1 : 3, count, modules);
}
struct memory { int32_t stype; void *next; int32_t type; uint8_t of_tile; uint32_t tile; int32_t location; uint64_t size; int32_t width, channels; };
int zesMemoryGetProperties(void *handle, struct memory *memory) {
    ASK(number(handle));
    if (memory->stype != 0xb) return INVALID;
    memory->location = !number(handle) && domain(handle) < 2;
    memory->of_tile = 1;
    return 0;
}
struct memory_state { int32_t stype; const void *next; int32_t health; uint64_t free, size; };
int zesMemoryGetState(void *handle, struct memory_state *state) {
    ASK(number(handle));
    if (state->stype != 0x1e) return INVALID;
    state->size = 8ULL << 30;
    state->free = (domain(handle) ? 3ULL : 7ULL) << 30;
    return 0;
}

/* Power: a domain of a tile comes before that of the card. */
int zesDeviceEnumPowerDomains(void *handle, uint32_t *count, void **domains) {
    ASK(number(handle));
    return list(handle, number(handle) ? 0 : 2, count, domains);
}
struct power { int32_t stype; void *next; uint8_t of_tile; uint32_t tile; uint8_t control, threshold; int32_t standard, least, most; };
int zesPowerGetProperties(void *handle, struct power *power) {
    ASK(number(handle));
    if (power->stype != 0xd) return INVALID;
    power->of_tile = domain(handle) == 0;
    return 0;
}
struct energy { uint64_t microjoules, timestamp; };
int zesPowerGetEnergyCounter(void *handle, struct energy *energy) {
    ASK(number(handle));
    energy->microjoules = microseconds * (domain(handle) ? 140 : 60); /* watts */
    energy->timestamp = microseconds;
    return 0;
}
struct limit { int32_t stype; void *next; int32_t level, source, unit; uint8_t locked, enabled, interval_locked; int32_t interval; uint8_t limit_locked; int32_t limit; };
int zesPowerGetLimitsExt(void *handle, uint32_t *count, struct limit *limits) {
    ASK(number(handle));
    for (uint32_t i = 0; limits && i < *count; i++) {
        if (limits[i].stype != 0x27) return INVALID;
        limits[i].level = 2 - (int)i; /* burst, then sustained */
        limits[i].unit = 2;
        limits[i].limit = i ? 190000 : 300000;
    }
    *count = 2;
    return 0;
}

int zesDeviceEnumFrequencyDomains(void *handle, uint32_t *count, void **domains) {
    ASK(number(handle));
    return list(handle, number(handle) ? 1 : 2, count, domains);
}
struct clock { int32_t stype; void *next; int32_t type; uint8_t of_tile; uint32_t tile; uint8_t control, event; double least, most; };
int zesFrequencyGetProperties(void *handle, struct clock *clock) {
    ASK(number(handle));
    if (clock->stype != 9) return INVALID;
    clock->type = domain(handle);
    return 0;
}
struct clock_state { int32_t stype; const void *next; double volts, request, tdp, efficient, actual; uint32_t reasons; };
int zesFrequencyGetState(void *handle, struct clock_state *state) {
    ASK(number(handle));
    if (state->stype != 0x1b) return INVALID;
    state->request = 2400;
    state->actual = number(handle) ? -1 : domain(handle) ? 1200 : 2050;
    state->reasons = number(handle) ? 0 : 0x1 | 0x8 | 0x100 | 0x4000;
    return 0;
}

int zesDeviceEnumTemperatureSensors(void *handle, uint32_t *count, void **sensors) {
    ASK(number(handle));
    return list(handle, number(handle) ? 0 : 2, count, sensors);
}
struct sensor { int32_t stype; void *next; int32_t type; uint8_t of_tile; uint32_t tile; double most; uint8_t supported[3]; };
int zesTemperatureGetProperties(void *handle, struct sensor *sensor) {
    ASK(number(handle));
    if (sensor->stype != 0x14) return INVALID;
    sensor->type = domain(handle); /* 0 is the whole card, 1 the GPU */
    return 0;
}
int zesTemperatureGetState(void *handle, double *celsius) {
    ASK(number(handle));
    *celsius = domain(handle) ? 66.5 : 70;
    return 0;
}

struct speed { int32_t generation, width; int64_t bandwidth; };
struct link { int32_t stype; void *next; int32_t status; uint32_t quality, stability; struct speed speed; };
int zesDevicePciGetState(void *handle, struct link *link) {
    ASK(number(handle));
    if (link->stype != 0x17) return INVALID;
    link->speed.generation = number(handle) ? -1 : 4;
    link->speed.width = number(handle) ? -1 : 16;
    return 0;
}
struct traffic { uint64_t timestamp, replays, packets, received, sent; struct speed speed; };
int zesDevicePciGetStats(void *handle, struct traffic *traffic) {
    ASK(number(handle));
    if (number(handle)) return UNSUPPORTED;
    traffic->timestamp = microseconds;
    traffic->received = microseconds * 3;
    traffic->sent = microseconds * 2;
    return 0;
}
struct process { int32_t stype; const void *next; uint32_t pid; uint64_t memory, shared; uint32_t engines; };
int zesDeviceProcessesGetState(void *handle, uint32_t *count, struct process *processes) {
    ASK(number(handle));
    if (number(handle)) { *count = 0; return 0; }
    for (uint32_t i = 0; processes && i < *count; i++) {
        processes[i].pid = i ? 1234 : 4321;
        processes[i].memory = (i ? 3ULL : 1ULL) << 30;
    }
    *count = 2;
    return 0;
}
