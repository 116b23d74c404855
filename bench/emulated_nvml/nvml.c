/*
 * An NVML without a GPU: libnvidia-ml.so.1 whose every answer stands in a script file (bench/emulated_nvml/script.py
 * writes it), named by EMULATED_NVML_SCRIPT and looked at again at every call, so that readings change while a program
 * runs.
 *
 * Belongs here: the functions of NVML's C interface that the daemon calls, as nvidia-ml-py calls them. Never: what a
 * card answers (cards.py).
 *
 * The script:
 *     [system]                                  answers that belong to no device; `count` is the number of [gpu]s
 *     nvmlInitWithFlags = !18                   an NVML error code
 *     * = !999                                  every function of the section, over its own line; in [system]: all
 *     [gpu]                                     one card; their order gives the index
 *     nvmlDeviceGetUUID = GPU-1
 *     nvmlDeviceGetMemoryInfo_v2 = ~600 4 1 2 1 the answer after 600 s, or as soon as the script says otherwise
 *     nvmlDeviceGetClockInfo.1 = 1410           the answer for one argument (a clock, a sensor, a link)
 *     [mig]                                     an instance of the card above
 * A function without a line answers 3, not supported. A handle whose UUID the script no longer has answers 15, lost.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef int nvmlReturn_t;
typedef unsigned long long u64;
#define API __attribute__((visibility("default"))) nvmlReturn_t

enum { OK = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7,
       DRIVER_NOT_LOADED = 9, LOST = 15, VERSION_MISMATCH = 25, NOT_READY = 27, UNKNOWN = 999 };
enum { SYSTEM, GPU, MIG };
enum { VALUE_SIZE = 1024, NAME_SIZE = 96, MAX_DEVICES = 256, MAX_COUNTED = 128 };

typedef struct { char *name, *value; } Line;
typedef struct { int kind, parent, lines, room; Line *line; const char *uuid; } Section;
typedef struct { char *text; Section *section; int sections; struct stat seen; } Script;
/* What a handle points at: it keeps its card when indices move, and outlives the card. */
typedef struct { char uuid[NAME_SIZE]; } Device;
typedef struct { Device *device; u64 taken_ns; } Sample;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Script script;
static Device device_table[MAX_DEVICES];
static struct { const char *name; unsigned long calls; } counted[MAX_COUNTED];
static int users, held_file = -1;

/* ---- the script ---- */

static const char *script_path(void) {
    const char *path = getenv("EMULATED_NVML_SCRIPT");
    return path ? path : "";
}

static void forget(void) {
    for (int i = 0; i < script.sections; i++) free(script.section[i].line);
    free(script.section);
    free(script.text);
    memset(&script, 0, sizeof script);
}

static char *trimmed(char *text) {
    while (*text == ' ' || *text == '\t') text++;
    char *end = text + strlen(text);
    while (end > text && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r')) *--end = 0;
    return text;
}

static Section *begin_section(const char *head) {
    script.section = realloc(script.section, sizeof(Section) * (script.sections + 1));
    Section *new = &script.section[script.sections];
    memset(new, 0, sizeof *new);
    new->kind = !strcmp(head, "[gpu]") ? GPU : !strcmp(head, "[mig]") ? MIG : SYSTEM;
    new->parent = -1;
    for (int i = script.sections - 1; new->kind == MIG && i >= 0 && new->parent < 0; i--)
        if (script.section[i].kind == GPU) new->parent = i;
    script.sections++;
    return new;
}

static void parse(void) {
    Section *current = NULL;
    char *rest = script.text;
    for (char *row; (row = strsep(&rest, "\n"));) {
        row = trimmed(row);
        if (*row == '[') current = begin_section(row);
        char *equals = strchr(row, '=');
        if (!current || *row == '#' || *row == '[' || !equals) continue;
        *equals = 0;
        if (current->lines == current->room) {
            current->room = current->room * 2 + 16;
            current->line = realloc(current->line, sizeof(Line) * current->room);
        }
        Line *line = &current->line[current->lines++];
        line->name = trimmed(row);
        line->value = trimmed(equals + 1);
        if (!strcmp(line->name, "nvmlDeviceGetUUID")) current->uuid = line->value;
    }
}

/* Read the script again when it is another file or was written since. 0: there is none. */
static int look(void) {
    struct stat now;
    if (stat(script_path(), &now)) { forget(); return 0; }
    if (script.text && now.st_ino == script.seen.st_ino && now.st_size == script.seen.st_size &&
        now.st_dev == script.seen.st_dev && now.st_mtim.tv_sec == script.seen.st_mtim.tv_sec &&
        now.st_mtim.tv_nsec == script.seen.st_mtim.tv_nsec)
        return 1;
    forget();
    FILE *file = fopen(script_path(), "r");
    if (!file) return 0;
    script.seen = now;
    script.text = calloc(1, now.st_size + 1);
    size_t got = fread(script.text, 1, now.st_size, file);
    fclose(file);
    script.text[got] = 0;
    parse();
    return 1;
}

static const char *value_in(const Section *section, const char *name) {
    for (int i = 0; section && i < section->lines; i++)
        if (!strcmp(section->line[i].name, name)) return section->line[i].value;
    return NULL;
}

static Section *system_section(void) {
    for (int i = 0; i < script.sections; i++)
        if (script.section[i].kind == SYSTEM) return &script.section[i];
    return NULL;
}

static Section *section_of(const Device *device) {
    for (int i = 0; device && i < script.sections; i++)
        if (script.section[i].uuid && !strcmp(script.section[i].uuid, device->uuid)) return &script.section[i];
    return NULL;
}

/* The number-th section of the kind under `parent` (-1: any). */
static Section *section_at(int kind, int parent, int number) {
    for (int i = 0; i < script.sections; i++) {
        Section *one = &script.section[i];
        if (one->kind == kind && (parent < 0 || one->parent == parent) && number-- == 0) return one;
    }
    return NULL;
}

static Device *handle_of(const Section *section) {
    for (int i = 0; section && section->uuid && i < MAX_DEVICES; i++) {
        if (!*device_table[i].uuid) snprintf(device_table[i].uuid, NAME_SIZE, "%s", section->uuid);
        if (!strcmp(device_table[i].uuid, section->uuid)) return &device_table[i];
    }
    return NULL;
}

/* ---- one answer ---- */

static u64 now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static void count(const char *name) {
    for (int i = 0; i < MAX_COUNTED; i++) {
        if (!counted[i].name) counted[i].name = name;
        if (!strcmp(counted[i].name, name)) { counted[i].calls++; return; }
    }
}

/* Copy the script's answer to `value` ("" where it has no line). The return code is the script's error, else OK. */
static nvmlReturn_t answer_now(const Device *device, int of_device, const char *name, char *value) {
    *value = 0;
    if (!look()) return users ? UNKNOWN : DRIVER_NOT_LOADED;
    Section *system = system_section(), *section = of_device ? section_of(device) : system;
    const char *found = value_in(system, "*");
    if (!found) found = value_in(section, "*");
    if (!found) found = value_in(section, name);
    if (!found) return of_device && !section ? LOST : OK;
    snprintf(value, VALUE_SIZE, "%s", found);
    return *value == '!' ? atoi(value + 1) : OK;
}

/* The same, counted, and waiting where the script says so; what follows the waiting time is the answer. */
static nvmlReturn_t answer_for(const Device *device, int of_device, const char *function, int argument, char *value) {
    char name[NAME_SIZE];
    u64 begun = now_ns();
    snprintf(name, sizeof name, argument < 0 ? "%s" : "%s.%d", function, argument);
    pthread_mutex_lock(&lock);
    count(function);
    nvmlReturn_t code = answer_now(device, of_device, name, value);
    while (*value == '~' && now_ns() - begun < (u64)(atof(value + 1) * 1e9)) {
        pthread_mutex_unlock(&lock);
        nanosleep(&(struct timespec){0, 5000000}, NULL);
        pthread_mutex_lock(&lock);
        code = answer_now(device, of_device, name, value);
    }
    pthread_mutex_unlock(&lock);
    if (*value == '~') {
        char *rest = strchr(value, ' ');
        memmove(value, rest ? rest + 1 : "", rest ? strlen(rest) : 1);
        code = *value == '!' ? atoi(value + 1) : OK;
    }
    return code;
}

static nvmlReturn_t answer(const Device *device, int of_device, const char *function, char *value) {
    return answer_for(device, of_device, function, -1, value);
}

/* Up to `most` numbers of a device's answer. Fewer than `least` is "not supported". */
static nvmlReturn_t numbers(Device *device, const char *name, int argument, int least, int most, u64 *into) {
    char value[VALUE_SIZE];
    if (!users) return UNINITIALIZED;
    if (!device) return INVALID_ARGUMENT;
    nvmlReturn_t code = answer_for(device, 1, name, argument, value);
    if (code) return code;
    int got = 0;
    for (char *next = value; got < most; got++) {
        char *end;
        into[got] = strtoull(next, &end, 10);
        if (end == next) break;
        next = end;
    }
    return got < least ? NOT_SUPPORTED : OK;
}

static nvmlReturn_t text(Device *device, int of_device, const char *name, char *into, unsigned size) {
    char value[VALUE_SIZE];
    if (!users) return UNINITIALIZED;
    nvmlReturn_t code = answer(device, of_device, name, value);
    if (code) return code;
    if (!*value) return NOT_SUPPORTED;
    if (strlen(value) >= size) return INSUFFICIENT_SIZE;
    strcpy(into, value);
    return OK;
}

static nvmlReturn_t number32(Device *device, const char *name, int argument, unsigned *into) {
    u64 got = 0;
    nvmlReturn_t code = numbers(device, name, argument, 1, 1, &got);
    if (!code) *into = got;
    return code;
}

/* ---- NVML: the library and its devices ---- */

API nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    char value[VALUE_SIZE];
    nvmlReturn_t code = answer(NULL, 0, "nvmlInitWithFlags", value);
    if (code) return code;
    /* As the driver's own library holds its device files. */
    if (!users++) held_file = open(script_path(), O_RDONLY | O_CLOEXEC);
    return OK;
}

API nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

API nvmlShutdown(void) {
    char value[VALUE_SIZE];
    if (!users) return UNINITIALIZED;
    nvmlReturn_t code = answer(NULL, 0, "nvmlShutdown", value);
    if (!--users) { close(held_file); held_file = -1; }
    return code;
}

__attribute__((visibility("default"))) const char *nvmlErrorString(nvmlReturn_t code) {
    return code == OK ? "Success" : "Scripted error";
}

API nvmlSystemGetDriverVersion(char *into, unsigned size) {
    return text(NULL, 0, "nvmlSystemGetDriverVersion", into, size);
}
API nvmlSystemGetNVMLVersion(char *into, unsigned size) { return text(NULL, 0, "nvmlSystemGetNVMLVersion", into, size); }

API nvmlDeviceGetCount_v2(unsigned *into) {
    char value[VALUE_SIZE];
    if (!users) return UNINITIALIZED;
    nvmlReturn_t code = answer(NULL, 0, "nvmlDeviceGetCount_v2", value);
    if (code) return code;
    pthread_mutex_lock(&lock);
    for (*into = 0; section_at(GPU, -1, *into); ++*into) continue;
    pthread_mutex_unlock(&lock);
    if (*value) *into = atoi(value);
    return OK;
}

/* A handle, unless the script answers the call with an error: to all, or in the section of the device in question. */
static nvmlReturn_t hand_out(Device *found, const char *name, nvmlReturn_t absent, Device **into) {
    char value[VALUE_SIZE];
    if (!users) return UNINITIALIZED;
    nvmlReturn_t code = answer(found, found != NULL, name, value);
    if (code) return code;
    *into = found;
    return found ? OK : absent;
}

API nvmlDeviceGetHandleByIndex_v2(unsigned index, Device **into) {
    pthread_mutex_lock(&lock);
    look();
    Device *found = handle_of(section_at(GPU, -1, index));
    pthread_mutex_unlock(&lock);
    return hand_out(found, "nvmlDeviceGetHandleByIndex_v2", INVALID_ARGUMENT, into);
}

API nvmlDeviceGetHandleByUUID(const char *uuid, Device **into) {
    Device *found = NULL;
    pthread_mutex_lock(&lock);
    look();
    for (int i = 0; i < script.sections; i++)
        if (script.section[i].uuid && !strcmp(script.section[i].uuid, uuid)) found = handle_of(&script.section[i]);
    pthread_mutex_unlock(&lock);
    return hand_out(found, "nvmlDeviceGetHandleByUUID", NOT_FOUND, into);
}

API nvmlDeviceGetIndex(Device *device, unsigned *into) {
    unsigned index = 0;
    pthread_mutex_lock(&lock);
    look();
    Section *mine = section_of(device);
    while (mine && mine->kind == GPU && section_at(GPU, -1, index) != mine) index++;
    pthread_mutex_unlock(&lock);
    if (!users) return UNINITIALIZED;
    if (!mine) return LOST;
    *into = index;
    return OK;
}

API nvmlDeviceGetUUID(Device *device, char *into, unsigned size) {
    return text(device, 1, "nvmlDeviceGetUUID", into, size);
}
API nvmlDeviceGetName(Device *device, char *into, unsigned size) {
    return text(device, 1, "nvmlDeviceGetName", into, size);
}

/* ---- NVML: readings of a device ---- */

API nvmlDeviceGetUtilizationRates(Device *device, unsigned *into) {
    u64 got[2] = {0};
    nvmlReturn_t code = numbers(device, "nvmlDeviceGetUtilizationRates", -1, 1, 2, got);
    if (!code) { into[0] = got[0]; into[1] = got[1]; }
    return code;
}

/* total free used */
API nvmlDeviceGetMemoryInfo(Device *device, u64 *into) {
    return numbers(device, "nvmlDeviceGetMemoryInfo", -1, 3, 3, into);
}

typedef struct { unsigned version; u64 bytes[4]; } MemoryV2;

/* total reserved free used */
API nvmlDeviceGetMemoryInfo_v2(Device *device, MemoryV2 *into) {
    u64 got[4];
    if (into->version != (sizeof *into | 2 << 24)) return VERSION_MISMATCH;
    nvmlReturn_t code = numbers(device, "nvmlDeviceGetMemoryInfo_v2", -1, 4, 4, got);
    if (!code) memcpy(into->bytes, got, sizeof got);
    return code;
}

/* total free used */
API nvmlDeviceGetBAR1MemoryInfo(Device *device, u64 *into) {
    return numbers(device, "nvmlDeviceGetBAR1MemoryInfo", -1, 3, 3, into);
}

#define NUMBER32(NAME) API NAME(Device *device, unsigned *into) { return number32(device, #NAME, -1, into); }
#define NUMBER64(NAME) API NAME(Device *device, u64 *into) { return numbers(device, #NAME, -1, 1, 1, into); }
#define BY_ARGUMENT(NAME) \
    API NAME(Device *device, unsigned which, unsigned *into) { return number32(device, #NAME, which, into); }
#define CURRENT_AND_PENDING(NAME) \
    API NAME(Device *device, unsigned *current, unsigned *pending) { \
        u64 got[2] = {0}; \
        nvmlReturn_t code = numbers(device, #NAME, -1, 1, 2, got); \
        if (!code) { *current = got[0]; *pending = got[1]; } \
        return code; \
    }

NUMBER32(nvmlDeviceGetPowerUsage)
NUMBER32(nvmlDeviceGetEnforcedPowerLimit)
NUMBER64(nvmlDeviceGetTotalEnergyConsumption)
NUMBER64(nvmlDeviceGetCurrentClocksEventReasons)
NUMBER64(nvmlDeviceGetCurrentClocksThrottleReasons)
NUMBER32(nvmlDeviceGetCurrPcieLinkGeneration)
NUMBER32(nvmlDeviceGetCurrPcieLinkWidth)
NUMBER32(nvmlDeviceGetMaxMigDeviceCount)
NUMBER32(nvmlDeviceGetGpuInstanceId)
BY_ARGUMENT(nvmlDeviceGetTemperature)
BY_ARGUMENT(nvmlDeviceGetClockInfo)
BY_ARGUMENT(nvmlDeviceGetNvLinkState)
CURRENT_AND_PENDING(nvmlDeviceGetEccMode)
CURRENT_AND_PENDING(nvmlDeviceGetMigMode)

typedef struct { unsigned version, sensor; int celsius; } Temperature;

API nvmlDeviceGetTemperatureV(Device *device, Temperature *into) {
    unsigned got;
    if (into->version != (sizeof *into | 1 << 24)) return VERSION_MISMATCH;
    nvmlReturn_t code = number32(device, "nvmlDeviceGetTemperatureV", into->sensor, &got);
    if (!code) into->celsius = got;
    return code;
}

API nvmlDeviceGetTotalEccErrors(Device *device, unsigned type, unsigned counter, u64 *into) {
    (void)counter;
    return numbers(device, "nvmlDeviceGetTotalEccErrors", type, 1, 1, into);
}

typedef struct { unsigned pid; u64 bytes; unsigned gpu_instance, compute_instance; } Process;

/* "pid:bytes pid:-", "none" where nothing runs. */
API nvmlDeviceGetComputeRunningProcesses_v3(Device *device, unsigned *room, Process *into) {
    char value[VALUE_SIZE], *rest = value;
    if (!users) return UNINITIALIZED;
    nvmlReturn_t code = answer(device, 1, "nvmlDeviceGetComputeRunningProcesses_v3", value);
    if (code) return code;
    if (!*value) return NOT_SUPPORTED;
    unsigned found = 0;
    for (char *word; (word = strsep(&rest, " "));) {
        char *colon = strchr(word, ':');
        if (!colon) continue;
        if (into && found < *room) {
            into[found] = (Process){atoi(word), colon[1] == '-' ? ~0ull : strtoull(colon + 1, NULL, 10), ~0u, ~0u};
        }
        found++;
    }
    code = found > *room ? INSUFFICIENT_SIZE : OK;
    *room = found;
    return code;
}

/* ---- NVML: MIG ---- */

API nvmlDeviceGetMigDeviceHandleByIndex(Device *card, unsigned index, Device **into) {
    pthread_mutex_lock(&lock);
    look();
    Section *parent = section_of(card);
    Device *found = parent ? handle_of(section_at(MIG, parent - script.section, index)) : NULL;
    pthread_mutex_unlock(&lock);
    return hand_out(found, "nvmlDeviceGetMigDeviceHandleByIndex", NOT_FOUND, into);
}

API nvmlDeviceIsMigDeviceHandle(Device *device, unsigned *into) {
    pthread_mutex_lock(&lock);
    look();
    Section *mine = section_of(device);
    *into = mine && mine->kind == MIG;
    pthread_mutex_unlock(&lock);
    return users ? OK : UNINITIALIZED;
}

API nvmlDeviceGetDeviceHandleFromMigDeviceHandle(Device *instance, Device **into) {
    pthread_mutex_lock(&lock);
    look();
    Section *mine = section_of(instance);
    Device *found = mine && mine->parent >= 0 ? handle_of(&script.section[mine->parent]) : NULL;
    pthread_mutex_unlock(&lock);
    return hand_out(found, "nvmlDeviceGetDeviceHandleFromMigDeviceHandle", INVALID_ARGUMENT, into);
}

/* ---- NVML: GPM ---- */

typedef struct { unsigned version, supported; } GpmSupport;

API nvmlGpmQueryDeviceSupport(Device *device, GpmSupport *into) {
    u64 got = 0;
    if (into->version != 1) return VERSION_MISMATCH;
    nvmlReturn_t code = numbers(device, "nvmlGpmQueryDeviceSupport", -1, 1, 1, &got);
    into->supported = got;
    return code == NOT_SUPPORTED ? OK : code;
}

API nvmlGpmSampleAlloc(Sample **into) {
    if (!users) return UNINITIALIZED;
    *into = calloc(1, sizeof(Sample));
    return OK;
}

API nvmlGpmSampleFree(Sample *sample) {
    free(sample);
    return users ? OK : UNINITIALIZED;
}

API nvmlGpmSampleGet(Device *device, Sample *sample) {
    u64 supported = 0;
    nvmlReturn_t code = numbers(device, "nvmlGpmQueryDeviceSupport", -1, 1, 1, &supported);
    if (code || !supported) return code ? code : NOT_SUPPORTED;
    *sample = (Sample){device, now_ns()};
    return OK;
}

API nvmlGpmMigSampleGet(Device *card, unsigned instance, Sample *sample) {
    nvmlReturn_t code = nvmlGpmSampleGet(card, sample);
    if (code) return code;
    pthread_mutex_lock(&lock);
    Section *parent = section_of(card), *one = NULL;
    for (int i = 0; parent && (one = section_at(MIG, parent - script.section, i)); i++) {
        const char *id = value_in(one, "nvmlDeviceGetGpuInstanceId");
        if (id && (unsigned)atoi(id) == instance) break;
    }
    sample->device = handle_of(one);
    pthread_mutex_unlock(&lock);
    return sample->device ? OK : INVALID_ARGUMENT;
}

typedef struct { unsigned id; nvmlReturn_t code; double value; char *names[3]; } Metric;

typedef struct { unsigned version, metrics; Sample *first, *second; Metric metric[]; } Metrics;

API nvmlGpmMetricsGet(Metrics *into) {
    char name[NAME_SIZE], value[VALUE_SIZE];
    if (!users) return UNINITIALIZED;
    if (into->version != 1) return VERSION_MISMATCH;
    Sample *first = into->first, *second = into->second;
    if (!first || !second || !first->device || first->device != second->device) return INVALID_ARGUMENT;
    if (second->taken_ns <= first->taken_ns) return INVALID_ARGUMENT;
    nvmlReturn_t code = answer(second->device, 1, "nvmlGpmMetricsGet", value);
    for (unsigned i = 0; !code && i < into->metrics; i++) {
        Metric *one = &into->metric[i];
        snprintf(name, sizeof name, "nvmlGpmMetricsGet.%u", one->id);
        pthread_mutex_lock(&lock);
        one->code = answer_now(second->device, 1, name, value);
        pthread_mutex_unlock(&lock);
        if (!one->code && !*value) one->code = NOT_SUPPORTED;
        one->value = atof(value);
    }
    return code;
}

/* ---- for tests, not NVML ---- */

__attribute__((visibility("default"))) void emulated_nvml_count_anew(void) {
    pthread_mutex_lock(&lock);
    memset(counted, 0, sizeof counted);
    pthread_mutex_unlock(&lock);
}

__attribute__((visibility("default"))) unsigned long emulated_nvml_calls(const char *name) {
    unsigned long calls = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < MAX_COUNTED && counted[i].name; i++)
        if (!strcmp(counted[i].name, name)) calls = counted[i].calls;
    pthread_mutex_unlock(&lock);
    return calls;
}
