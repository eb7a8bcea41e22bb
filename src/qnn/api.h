/* api.h: the part of QNN's C interface that is used here: layouts, numbers and places in the function tables
 * (interface facts; core API 2.27 and system API 1.4, SDK 2.36, the oldest that this program loads), checked
 * against libraries 2.47 to 2.51. LP64.
 *
 * Enumerations are uint32_t with named constants: a few values don't fit an int. Every error handle is 64
 * bits wide, the number is its low 16 bits, 0 is success. Tensors are arrays of 144-byte elements. */
#ifndef SW_QNN_API_H
#define SW_QNN_API_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

typedef uint64_t Qnn_ErrorHandle_t;
typedef void *Qnn_Handle_t; /* of a logger, backend, device, context, graph, profile, signal */

enum {
    QNN_CORE_MAJOR = 2,
    QNN_CORE_MINOR_LEAST = 27,
    QNN_SYSTEM_MAJOR = 1,
    QNN_SYSTEM_MINOR_LEAST = 4,
    QNN_BACKEND_ID_HTP = 6
};
#define QNN_OP_PACKAGE "qti.aisw"

enum { QNN_LOG_ERROR = 1, QNN_LOG_WARN, QNN_LOG_INFO, QNN_LOG_VERBOSE, QNN_LOG_DEBUG };

enum {
    QNN_DATATYPE_INT_32 = 50,
    QNN_DATATYPE_UINT_32 = 306,
    QNN_DATATYPE_FLOAT_16 = 534,
    QNN_DATATYPE_FLOAT_32 = 562,
    QNN_DATATYPE_SFIXED_POINT_8 = 776,
    QNN_DATATYPE_SFIXED_POINT_16 = 790,
    QNN_DATATYPE_SFIXED_POINT_32 = 818,
    QNN_DATATYPE_UFIXED_POINT_8 = 1032,
    QNN_DATATYPE_UFIXED_POINT_16 = 1046,
    QNN_DATATYPE_BOOL_8 = 1288
};

enum { QNN_TENSOR_APP_WRITE = 0, QNN_TENSOR_APP_READ = 1, QNN_TENSOR_NATIVE = 3, QNN_TENSOR_STATIC = 4 };
enum { QNN_TENSOR_V1 = 1, QNN_TENSOR_V2 = 2 };
enum { QNN_TENSORMEMTYPE_RAW = 0, QNN_TENSORMEMTYPE_MEMHANDLE = 1 };
enum { QNN_UNDEFINED = 0x7fffffff, QNN_DEFINED = 1 };
enum {
    QNN_ENCODING_SCALE_OFFSET = 0,
    QNN_ENCODING_AXIS_SCALE_OFFSET = 1,
    QNN_ENCODING_BW_AXIS_SCALE_OFFSET = 3,
    QNN_ENCODING_BLOCKWISE_EXPANSION = 5,
    QNN_ENCODING_BW_FLOAT_BLOCK = 11 /* core API 2.32, SDK 2.43 */
};
enum { QNN_PARAM_SCALAR = 0, QNN_PARAM_TENSOR = 1 };
enum { QNN_MAX_RANK = 8 };

typedef struct Qnn_Version_t {
    uint32_t major, minor, patch;
} Qnn_Version_t;

typedef struct Qnn_Scalar_t {
    uint32_t dataType;
    union {
        float floatValue;
        uint32_t uint32Value;
        int32_t int32Value;
        uint8_t bool8Value;
        uint64_t bytes;
    } value;
} Qnn_Scalar_t;
_Static_assert(sizeof(Qnn_Scalar_t) == 16 && offsetof(Qnn_Scalar_t, value) == 8, "scalar");

typedef struct Qnn_ScaleOffset_t { /* real = scale * (q + offset) */
    float scale;
    int32_t offset;
} Qnn_ScaleOffset_t;
_Static_assert(sizeof(Qnn_ScaleOffset_t) == 8, "scale and offset");

typedef struct Qnn_FloatScaleOffset_t {
    float scale, offset;
} Qnn_FloatScaleOffset_t;
_Static_assert(sizeof(Qnn_FloatScaleOffset_t) == 8, "scale and offset in float");

typedef struct Qnn_BlockwiseExpansion_t { /* real = q * a block's step * its channel's scale */
    int32_t axis;                         /* of the output channels */
    Qnn_ScaleOffset_t *scaleOffsets;      /* one a channel */
    uint32_t numBlocksPerAxis;            /* of a channel */
    uint32_t blockScaleBitwidth;
    uint32_t blockScaleStorageType; /* 0: the steps are uint8 */
    const uint8_t *blocksScale8;    /* [channels][blocks], 1..2^blockScaleBitwidth */
} Qnn_BlockwiseExpansion_t;
_Static_assert(sizeof(Qnn_BlockwiseExpansion_t) == 40, "blockwise expansion");
_Static_assert(offsetof(Qnn_BlockwiseExpansion_t, scaleOffsets) == 8, "blockwise expansion");
_Static_assert(offsetof(Qnn_BlockwiseExpansion_t, numBlocksPerAxis) == 16, "blockwise expansion");
_Static_assert(offsetof(Qnn_BlockwiseExpansion_t, blocksScale8) == 32, "blockwise expansion");

typedef struct Qnn_QuantizeParams_t {
    uint32_t encodingDefinition, quantizationEncoding;
    union {
        Qnn_ScaleOffset_t scaleOffset;
        struct {
            int32_t axis;
            uint32_t numScaleOffsets;
            Qnn_ScaleOffset_t *scaleOffset;
        } axis;
        struct {
            uint32_t bitwidth;
            int32_t axis;
            uint32_t numElements;
            const float *scales;
            const int32_t *offsets; /* NULL: all 0 */
        } bwAxis;
        struct {
            uint32_t bitwidth;
            const uint32_t *blockSize; /* values of a block along each dimension */
            Qnn_FloatScaleOffset_t
                *floatScaleOffset; /* [channels][blocks], whatever the order of dimensions */
        } bwFloatBlock;
        Qnn_BlockwiseExpansion_t *blockwise;
        uint64_t bytes[4];
    } u;
} Qnn_QuantizeParams_t;
_Static_assert(sizeof(Qnn_QuantizeParams_t) == 40 && offsetof(Qnn_QuantizeParams_t, u) == 8, "encoding");
_Static_assert(offsetof(Qnn_QuantizeParams_t, u.axis.scaleOffset) == 16, "encoding of an axis");
_Static_assert(offsetof(Qnn_QuantizeParams_t, u.bwAxis.scales) == 24, "encoding of an axis with a bit width");
_Static_assert(offsetof(Qnn_QuantizeParams_t, u.bwAxis.offsets) == 32,
               "encoding of an axis with a bit width");
_Static_assert(offsetof(Qnn_QuantizeParams_t, u.bwFloatBlock.blockSize) == 16, "encoding of float blocks");
_Static_assert(offsetof(Qnn_QuantizeParams_t, u.bwFloatBlock.floatScaleOffset) == 24,
               "encoding of float blocks");

/* V2; V1's members are its first 112 bytes. */
typedef struct Qnn_TensorV2_t {
    uint32_t id; /* written by tensorCreateGraphTensor */
    const char *name;
    uint32_t type, dataFormat, dataType;
    Qnn_QuantizeParams_t quantizeParams;
    uint32_t rank;
    uint32_t *dimensions;
    uint32_t memType;
    union {
        struct {
            void *data;
            uint32_t dataSize;
        } clientBuf;            /* memType RAW */
        Qnn_Handle_t memHandle; /* MEMHANDLE */
    };
    uint8_t *isDynamicDimensions;
    struct {
        uint32_t type, layout[2];
    } sparseParams;
    uint8_t isProduced;
} Qnn_TensorV2_t;
_Static_assert(sizeof(Qnn_TensorV2_t) == 136 && offsetof(Qnn_TensorV2_t, name) == 8, "tensor V2");
_Static_assert(offsetof(Qnn_TensorV2_t, type) == 16 && offsetof(Qnn_TensorV2_t, dataType) == 24, "tensor V2");
_Static_assert(offsetof(Qnn_TensorV2_t, quantizeParams) == 32, "tensor V2");
_Static_assert(offsetof(Qnn_TensorV2_t, rank) == 72 && offsetof(Qnn_TensorV2_t, dimensions) == 80,
               "tensor V2");
_Static_assert(offsetof(Qnn_TensorV2_t, memType) == 88 && offsetof(Qnn_TensorV2_t, clientBuf) == 96,
               "tensor V2");
_Static_assert(offsetof(Qnn_TensorV2_t, isDynamicDimensions) == 112, "tensor V2");
_Static_assert(offsetof(Qnn_TensorV2_t, sparseParams) == 120, "tensor V2");
_Static_assert(offsetof(Qnn_TensorV2_t, isProduced) == 132, "tensor V2");

typedef struct Qnn_Tensor_t {
    uint32_t version;
    Qnn_TensorV2_t v2;
} Qnn_Tensor_t;
_Static_assert(sizeof(Qnn_Tensor_t) == 144 && offsetof(Qnn_Tensor_t, v2) == 8, "tensor");

typedef struct Qnn_Param_t {
    uint32_t paramType;
    const char *name;
    union {
        Qnn_Scalar_t scalar;
        Qnn_Tensor_t tensor;
    } u;
} Qnn_Param_t;
_Static_assert(sizeof(Qnn_Param_t) == 160 && offsetof(Qnn_Param_t, u) == 16, "parameter");

typedef struct Qnn_OpConfig_t {
    uint32_t version; /* 1 */
    struct {
        const char *name, *packageName, *typeName;
        uint32_t numOfParams;
        Qnn_Param_t *params;
        uint32_t numOfInputs;
        Qnn_Tensor_t *inputTensors;
        uint32_t numOfOutputs;
        Qnn_Tensor_t *outputTensors;
    } v1;
} Qnn_OpConfig_t;
_Static_assert(sizeof(Qnn_OpConfig_t) == 80 && offsetof(Qnn_OpConfig_t, v1) == 8, "op");
_Static_assert(offsetof(Qnn_OpConfig_t, v1.params) == 40, "op");
_Static_assert(offsetof(Qnn_OpConfig_t, v1.inputTensors) == 56, "op");
_Static_assert(offsetof(Qnn_OpConfig_t, v1.outputTensors) == 72, "op");

/* Of a device, a context and a graph alike: lists are NULL-terminated arrays of pointers to these. */
typedef struct Qnn_Config_t {
    uint32_t option; /* 0: customConfig points to one of the backend's own */
    void *customConfig;
} Qnn_Config_t;
_Static_assert(sizeof(Qnn_Config_t) == 16 && offsetof(Qnn_Config_t, customConfig) == 8, "configuration");

/* Libraries differ in where the value of a device's custom configuration stands, at byte 4 (2.25 to 2.43 and
 * 2.49) or at byte 8 (2.47, 2.48, 2.50, 2.51), and their version numbers don't tell. So it is written at both
 * places; measured to work with 2.47, 2.48, 2.49, 2.50 and 2.51. */
typedef struct QnnHtpDevice_CustomConfig_t {
    uint32_t option, value_at_4, value_at_8, zero[5];
} QnnHtpDevice_CustomConfig_t;
enum { QNN_HTP_DEVICE_SOC = 0 };

typedef struct QnnHtpContext_CustomConfig_t {
    uint32_t option;
    union {
        uint8_t enabled;
        struct {
            Qnn_Handle_t firstGroupHandle; /* NULL for the first context */
            uint64_t maxSpillFillBuffer;   /* bytes; only the first one's counts */
        } group;
        uint64_t bytes[2];
    } u;
} QnnHtpContext_CustomConfig_t;
_Static_assert(sizeof(QnnHtpContext_CustomConfig_t) == 24, "context configuration");
_Static_assert(offsetof(QnnHtpContext_CustomConfig_t, u.group.maxSpillFillBuffer) == 16, "group of contexts");
enum { QNN_HTP_CONTEXT_WEIGHT_SHARING = 1, QNN_HTP_CONTEXT_REGISTER_MULTI_CONTEXTS = 2 };

typedef struct QnnHtpGraph_CustomConfig_t {
    uint32_t option;
    union {
        struct {
            uint32_t type;
            float value;
        } optimization;
        uint32_t vtcm_mb;
        uint64_t bytes[6];
    } u;
} QnnHtpGraph_CustomConfig_t;
_Static_assert(sizeof(QnnHtpGraph_CustomConfig_t) == 56, "graph configuration");
_Static_assert(offsetof(QnnHtpGraph_CustomConfig_t, u) == 8, "graph configuration");
enum { QNN_HTP_GRAPH_OPTIMIZATION = 1, QNN_HTP_GRAPH_VTCM_MB = 3 };
enum { QNN_HTP_OPTIMIZATION_LEVEL = 3, QNN_HTP_OPTIMIZATION_SLC_ALLOCATOR = 7 };

/* Shared memory: a tensor's place in a buffer that the DSP has mapped by its file descriptor. */
typedef struct QnnMemHtp_Descriptor_t {
    uint32_t type; /* QNN_HTP_MEM_SHARED_BUFFER */
    uint64_t size; /* of the whole buffer */
    struct {
        int32_t fd;
        uint64_t offset;
    } sharedBufferConfig;
} QnnMemHtp_Descriptor_t;
_Static_assert(sizeof(QnnMemHtp_Descriptor_t) == 32, "shared buffer");
_Static_assert(offsetof(QnnMemHtp_Descriptor_t, sharedBufferConfig.offset) == 24, "shared buffer");
enum { QNN_HTP_MEM_SHARED_BUFFER = 1 };

typedef struct Qnn_MemDescriptor_t {
    struct {
        uint32_t numDim;
        uint32_t *dimSize;
        const char *shapeConfig; /* NULL */
    } memShape;
    uint32_t dataType, memType;
    QnnMemHtp_Descriptor_t *customInfo; /* of QNN_MEM_TYPE_CUSTOM */
    uint64_t zero;
} Qnn_MemDescriptor_t;
_Static_assert(sizeof(Qnn_MemDescriptor_t) == 48, "memory");
_Static_assert(offsetof(Qnn_MemDescriptor_t, dataType) == 24, "memory");
_Static_assert(offsetof(Qnn_MemDescriptor_t, customInfo) == 32, "memory");
enum { QNN_MEM_TYPE_CUSTOM = 2 };

/* What a profile collects. */
typedef struct QnnProfile_EventData_t {
    uint32_t type, unit;
    uint64_t value;
    const char *identifier;
} QnnProfile_EventData_t;
_Static_assert(sizeof(QnnProfile_EventData_t) == 24, "event");
enum { QNN_PROFILE_LEVEL_BASIC = 1, QNN_PROFILE_LEVEL_DETAILED = 2 };
enum {
    QNN_PROFILE_UNIT_MICROSEC = 1,
    QNN_PROFILE_UNIT_BYTES,
    QNN_PROFILE_UNIT_CYCLES,
    QNN_PROFILE_UNIT_COUNT
};

/* Clocks and power. */
typedef struct QnnHtpPerfInfrastructure_DcvsV3_t {
    uint32_t contextId, setDcvsEnable, dcvsEnable, powerMode;
    uint32_t setSleepLatency, sleepLatency, setSleepDisable, sleepDisable; /* latency: microseconds */
    uint32_t setBusParams, busVoltageCornerMin, busVoltageCornerTarget, busVoltageCornerMax;
    uint32_t setCoreParams, coreVoltageCornerMin, coreVoltageCornerTarget, coreVoltageCornerMax;
} QnnHtpPerfInfrastructure_DcvsV3_t;
_Static_assert(sizeof(QnnHtpPerfInfrastructure_DcvsV3_t) == 64, "clocks");

typedef struct QnnHtpPerfInfrastructure_PowerConfig_t {
    uint32_t option;
    union {
        QnnHtpPerfInfrastructure_DcvsV3_t dcvsV3;
        uint32_t microseconds;
    } u;
} QnnHtpPerfInfrastructure_PowerConfig_t;
_Static_assert(sizeof(QnnHtpPerfInfrastructure_PowerConfig_t) == 68, "power");
enum { QNN_HTP_POWER_DCVS_V3 = 1, QNN_HTP_POWER_RPC_CONTROL_LATENCY = 2, QNN_HTP_POWER_RPC_POLLING_TIME = 3 };
enum {
    QNN_HTP_POWERMODE_ADJUST_UP_DOWN = 1,
    QNN_HTP_POWERMODE_POWER_SAVER = 4,
    QNN_HTP_POWERMODE_PERFORMANCE = 16
};
enum {
    QNN_HTP_CORNER_DISABLE = 16, /* no vote */
    QNN_HTP_CORNER_SVS2 = 48,
    QNN_HTP_CORNER_SVS = 64,
    QNN_HTP_CORNER_SVS_PLUS = 80,
    QNN_HTP_CORNER_NOM = 96,
    QNN_HTP_CORNER_NOM_PLUS = 112,
    QNN_HTP_CORNER_MAX = 160
};
enum { QNN_HTP_MOST_RPC_POLLING_US = 9999 };

typedef struct QnnHtpDevice_Infrastructure_t {
    uint32_t infraType; /* 0: performance */
    Qnn_ErrorHandle_t (*createPowerConfigId)(uint32_t device, uint32_t core, uint32_t *id);
    Qnn_ErrorHandle_t (*destroyPowerConfigId)(uint32_t id);
    Qnn_ErrorHandle_t (*setPowerConfig)(uint32_t id, const QnnHtpPerfInfrastructure_PowerConfig_t **config);
    void *setMemoryConfig;
} QnnHtpDevice_Infrastructure_t;
_Static_assert(sizeof(QnnHtpDevice_Infrastructure_t) == 40, "infrastructure");

/* What the library has found of the machine it runs on. */
typedef struct QnnHtpDevice_DeviceInfoExtension_t {
    uint32_t devType; /* 0: on the chip */
    struct {
        size_t vtcmSize; /* MB */
        uint32_t socModel;
        uint8_t signedPdSupport, dlbcSupport;
        uint32_t arch;
    } onChipDevice;
} QnnHtpDevice_DeviceInfoExtension_t;
_Static_assert(sizeof(QnnHtpDevice_DeviceInfoExtension_t) == 32, "device");
_Static_assert(offsetof(QnnHtpDevice_DeviceInfoExtension_t, onChipDevice.arch) == 24, "device");

typedef struct QnnDevice_HardwareDeviceInfo_t {
    uint32_t version; /* 1 */
    struct {
        uint32_t deviceId, deviceType, numCores;
        const void *cores;
        const QnnHtpDevice_DeviceInfoExtension_t *deviceInfoExtension;
    } v1;
} QnnDevice_HardwareDeviceInfo_t;
_Static_assert(sizeof(QnnDevice_HardwareDeviceInfo_t) == 40, "hardware");
_Static_assert(offsetof(QnnDevice_HardwareDeviceInfo_t, v1.deviceInfoExtension) == 32, "hardware");

typedef struct QnnDevice_PlatformInfo_t {
    uint32_t version; /* 1 */
    struct {
        uint32_t numHwDevices;
        const QnnDevice_HardwareDeviceInfo_t *hwDevices;
    } v1;
} QnnDevice_PlatformInfo_t;
_Static_assert(sizeof(QnnDevice_PlatformInfo_t) == 24, "platform");

typedef void QnnLog_Callback_t(const char *format, uint32_t level, uint64_t timestamp, va_list args);

/* The core functions by their place. Never read a slot that the oldest version allowed didn't have (68). */
typedef struct QnnCore_t {
    void *slot_0;
    Qnn_ErrorHandle_t (*backendCreate)(Qnn_Handle_t log, const Qnn_Config_t **config, Qnn_Handle_t *backend);
    void *slots_2_3[2];
    Qnn_ErrorHandle_t (*backendGetBuildId)(const char **id);
    void *slots_5_6[2];
    Qnn_ErrorHandle_t (*backendValidateOpConfig)(Qnn_Handle_t backend, Qnn_OpConfig_t op);
    Qnn_ErrorHandle_t (*backendFree)(Qnn_Handle_t backend);
    Qnn_ErrorHandle_t (*contextCreate)(Qnn_Handle_t backend, Qnn_Handle_t device, const Qnn_Config_t **config,
                                       Qnn_Handle_t *context);
    void *slot_10;
    Qnn_ErrorHandle_t (*contextGetBinarySize)(Qnn_Handle_t context, uint64_t *size);
    Qnn_ErrorHandle_t (*contextGetBinary)(Qnn_Handle_t context, void *data, uint64_t size, uint64_t *written);
    Qnn_ErrorHandle_t (*contextCreateFromBinary)(Qnn_Handle_t backend, Qnn_Handle_t device,
                                                 const Qnn_Config_t **config, const void *data, uint64_t size,
                                                 Qnn_Handle_t *context, Qnn_Handle_t profile);
    Qnn_ErrorHandle_t (*contextFree)(Qnn_Handle_t context, Qnn_Handle_t profile);
    Qnn_ErrorHandle_t (*graphCreate)(Qnn_Handle_t context, const char *name, const Qnn_Config_t **config,
                                     Qnn_Handle_t *graph);
    void *slot_16;
    Qnn_ErrorHandle_t (*graphSetConfig)(Qnn_Handle_t graph, const Qnn_Config_t **config);
    Qnn_ErrorHandle_t (*graphAddNode)(Qnn_Handle_t graph, Qnn_OpConfig_t op);
    Qnn_ErrorHandle_t (*graphFinalize)(Qnn_Handle_t graph, Qnn_Handle_t profile, Qnn_Handle_t signal);
    Qnn_ErrorHandle_t (*graphRetrieve)(Qnn_Handle_t context, const char *name, Qnn_Handle_t *graph);
    Qnn_ErrorHandle_t (*graphExecute)(Qnn_Handle_t graph, const Qnn_Tensor_t *inputs, uint32_t n_inputs,
                                      Qnn_Tensor_t *outputs, uint32_t n_outputs, Qnn_Handle_t profile,
                                      Qnn_Handle_t signal);
    void *slots_22_23[2];
    Qnn_ErrorHandle_t (*tensorCreateGraphTensor)(Qnn_Handle_t graph, Qnn_Tensor_t *tensor);
    Qnn_ErrorHandle_t (*logCreate)(QnnLog_Callback_t *callback, uint32_t level, Qnn_Handle_t *log);
    Qnn_ErrorHandle_t (*logSetLogLevel)(Qnn_Handle_t log, uint32_t level);
    Qnn_ErrorHandle_t (*logFree)(Qnn_Handle_t log);
    Qnn_ErrorHandle_t (*profileCreate)(Qnn_Handle_t backend, uint32_t level, Qnn_Handle_t *profile);
    void *slot_29;
    Qnn_ErrorHandle_t (*profileGetEvents)(Qnn_Handle_t profile, const uint64_t **events, uint32_t *count);
    Qnn_ErrorHandle_t (*profileGetSubEvents)(uint64_t event, const uint64_t **events, uint32_t *count);
    Qnn_ErrorHandle_t (*profileGetEventData)(uint64_t event, QnnProfile_EventData_t *data);
    void *slot_33;
    Qnn_ErrorHandle_t (*profileFree)(Qnn_Handle_t profile);
    Qnn_ErrorHandle_t (*memRegister)(Qnn_Handle_t context, const Qnn_MemDescriptor_t *list, uint32_t count,
                                     Qnn_Handle_t *handles);
    Qnn_ErrorHandle_t (*memDeRegister)(const Qnn_Handle_t *handles, uint32_t count);
    Qnn_ErrorHandle_t (*deviceGetPlatformInfo)(Qnn_Handle_t log, const QnnDevice_PlatformInfo_t **info);
    Qnn_ErrorHandle_t (*deviceFreePlatformInfo)(Qnn_Handle_t log, const QnnDevice_PlatformInfo_t *info);
    Qnn_ErrorHandle_t (*deviceGetInfrastructure)(const QnnHtpDevice_Infrastructure_t **infrastructure);
    Qnn_ErrorHandle_t (*deviceCreate)(Qnn_Handle_t log, const Qnn_Config_t **config, Qnn_Handle_t *device);
    void *slots_41_42[2];
    Qnn_ErrorHandle_t (*deviceFree)(Qnn_Handle_t device);
} QnnCore_t;
#define QNN_SLOT(name, index) _Static_assert(offsetof(QnnCore_t, name) == 8 * (index), "slot of " #name)
QNN_SLOT(backendCreate, 1);
QNN_SLOT(backendGetBuildId, 4);
QNN_SLOT(backendValidateOpConfig, 7);
QNN_SLOT(contextCreate, 9);
QNN_SLOT(contextGetBinarySize, 11);
QNN_SLOT(contextCreateFromBinary, 13);
QNN_SLOT(graphCreate, 15);
QNN_SLOT(graphAddNode, 18);
QNN_SLOT(graphExecute, 21);
QNN_SLOT(tensorCreateGraphTensor, 24);
QNN_SLOT(logFree, 27);
QNN_SLOT(graphSetConfig, 17);
QNN_SLOT(profileCreate, 28);
QNN_SLOT(profileFree, 34);
QNN_SLOT(memRegister, 35);
QNN_SLOT(memDeRegister, 36);
QNN_SLOT(deviceGetPlatformInfo, 37);
QNN_SLOT(deviceGetInfrastructure, 39);
QNN_SLOT(deviceCreate, 40);
QNN_SLOT(deviceFree, 43);
#undef QNN_SLOT

typedef struct QnnInterface_t {
    uint32_t backendId;
    const char *providerName;
    Qnn_Version_t coreApiVersion, backendApiVersion;
    QnnCore_t core;
} QnnInterface_t;
_Static_assert(offsetof(QnnInterface_t, coreApiVersion) == 16 && offsetof(QnnInterface_t, core) == 40,
               "interface");
typedef Qnn_ErrorHandle_t QnnInterface_getProviders_t(const QnnInterface_t ***list, uint32_t *count);

/* What the system library reads out of a context binary. */
typedef struct QnnSystemContext_GraphInfo_t { /* V1 ends before numUpdateableTensors, V2 before
                                                 graphBlobInfoSize */
    uint32_t version;
    struct {
        const char *graphName;
        uint32_t numGraphInputs;
        const Qnn_Tensor_t *graphInputs;
        uint32_t numGraphOutputs;
        const Qnn_Tensor_t *graphOutputs;
        uint32_t numUpdateableTensors;
        const Qnn_Tensor_t *updateableTensors;
        uint32_t graphBlobInfoSize;
        const void *graphBlobInfo;
        uint32_t startOpIndex, endOpIndex;
    } v3;
} QnnSystemContext_GraphInfo_t;
_Static_assert(sizeof(QnnSystemContext_GraphInfo_t) == 88, "graph info: the array's stride since 1.4");
_Static_assert(offsetof(QnnSystemContext_GraphInfo_t, v3.graphBlobInfoSize) == 64, "graph info V3");
_Static_assert(offsetof(QnnSystemContext_GraphInfo_t, v3.graphBlobInfo) == 72, "graph info V3");

typedef struct QnnHtpSystemContext_GraphBlobInfo_t { /* version 1 */
    uint32_t version;
    uint64_t spillFillBufferSize; /* bytes */
    uint32_t vtcmSize;            /* MB by the header; libraries 2.47 to 2.51 write bytes */
    uint32_t optimizationLevel;
    uint8_t htpDlbc;
    uint64_t numHvxThreads;
} QnnHtpSystemContext_GraphBlobInfo_t;
_Static_assert(sizeof(QnnHtpSystemContext_GraphBlobInfo_t) == 40, "graph blob V1");
_Static_assert(offsetof(QnnHtpSystemContext_GraphBlobInfo_t, vtcmSize) == 16, "graph blob V1");
_Static_assert(offsetof(QnnHtpSystemContext_GraphBlobInfo_t, numHvxThreads) == 32, "graph blob V1");

typedef struct QnnHtpSystemContext_GraphBlobInfoV2_t { /* version 2: stands behind the first one */
    uint32_t version;
    uint64_t nativeKChannelSize, nativeVChannelSize;
    uint32_t isSafeShareIO;
    uint64_t ioTensorSize, opDataSize, constSize, ddrTensorSize, sharedWeightsSize;
} QnnHtpSystemContext_GraphBlobInfoV2_t;
_Static_assert(sizeof(QnnHtpSystemContext_GraphBlobInfoV2_t) == 72, "graph blob V2");
_Static_assert(offsetof(QnnHtpSystemContext_GraphBlobInfoV2_t, ioTensorSize) == 32, "graph blob V2");

/* V2 is V1 with one more pointer, which isn't read here. */
typedef struct QnnSystemContext_BinaryInfoV1_t {
    uint32_t backendId;
    const char *buildId;
    Qnn_Version_t coreApiVersion, backendApiVersion;
    const char *socVersion;
    Qnn_Version_t hwInfoBlobVersion, contextBlobVersion;
    uint32_t hwInfoBlobSize;
    const void *hwInfoBlob;
    uint64_t contextBlobSize;
    uint32_t numContextTensors;
    const Qnn_Tensor_t *contextTensors;
    uint32_t numGraphs;
    const QnnSystemContext_GraphInfo_t *graphs;
    const void *platformInfo;
} QnnSystemContext_BinaryInfoV1_t;
_Static_assert(sizeof(QnnSystemContext_BinaryInfoV1_t) == 136, "binary info V2");
_Static_assert(offsetof(QnnSystemContext_BinaryInfoV1_t, contextBlobVersion) == 60, "binary info V1");
_Static_assert(offsetof(QnnSystemContext_BinaryInfoV1_t, graphs) == 120, "binary info V1");

typedef struct QnnSystemContext_BinaryInfoV3_t {
    uint32_t backendId;
    const char *buildId;
    Qnn_Version_t coreApiVersion, backendApiVersion;
    const char *socVersion;
    Qnn_Version_t contextBlobVersion;
    uint64_t contextBlobSize;
    uint32_t numContextTensors;
    const Qnn_Tensor_t *contextTensors;
    uint32_t numGraphs;
    const QnnSystemContext_GraphInfo_t *graphs;
    const void *platformInfo;
    uint32_t contextMetadataSize;
    const void *contextMetadata; /* {version 1, architecture} */
    uint32_t socModel;
} QnnSystemContext_BinaryInfoV3_t;
_Static_assert(sizeof(QnnSystemContext_BinaryInfoV3_t) == 136, "binary info V3");
_Static_assert(offsetof(QnnSystemContext_BinaryInfoV3_t, contextBlobVersion) == 48, "binary info V3");
_Static_assert(offsetof(QnnSystemContext_BinaryInfoV3_t, graphs) == 96, "binary info V3");
_Static_assert(offsetof(QnnSystemContext_BinaryInfoV3_t, contextMetadata) == 120, "binary info V3");
_Static_assert(offsetof(QnnSystemContext_BinaryInfoV3_t, socModel) == 128, "binary info V3");

typedef struct QnnSystemContext_BinaryInfo_t {
    uint32_t version;
    union {
        QnnSystemContext_BinaryInfoV1_t v1;
        QnnSystemContext_BinaryInfoV3_t v3;
    } u;
} QnnSystemContext_BinaryInfo_t;
_Static_assert(sizeof(QnnSystemContext_BinaryInfo_t) == 144, "binary info");

typedef struct QnnSystem_t {
    Qnn_ErrorHandle_t (*systemContextCreate)(Qnn_Handle_t *handle);
    void *slot_1;
    Qnn_ErrorHandle_t (*systemContextGetMetaData)(Qnn_Handle_t handle, const void *data, uint64_t size,
                                                  const QnnSystemContext_BinaryInfo_t **info);
    Qnn_ErrorHandle_t (*systemContextFree)(Qnn_Handle_t handle);
} QnnSystem_t;
_Static_assert(offsetof(QnnSystem_t, systemContextFree) == 24, "slot of systemContextFree");

typedef struct QnnSystemInterface_t {
    uint32_t backendId;
    const char *providerName;
    Qnn_Version_t systemApiVersion;
    QnnSystem_t system;
} QnnSystemInterface_t;
_Static_assert(offsetof(QnnSystemInterface_t, system) == 32, "system interface");
typedef Qnn_ErrorHandle_t QnnSystemInterface_getProviders_t(const QnnSystemInterface_t ***list,
                                                            uint32_t *count);

#endif
