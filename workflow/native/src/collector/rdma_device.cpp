#include "collector/rdma_device.hpp"

#include <algorithm>

#include "input/input_error.hpp"

#if ACAPELLA_VERBS
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

namespace acapella::collector {
namespace {

using input::InputError;

[[noreturn]] void fail(const std::string& device, const std::string& what) {
    throw InputError("cannot_open", "RDMA device " + device, what);
}
[[noreturn]] void fail_with_errno(const std::string& device, const std::string& what) {
    fail(device, what + ": " + std::strerror(errno));
}

using Context = std::unique_ptr<ibv_context, decltype(&ibv_close_device)>;

Context open_device(const std::string& name) {
    int count = 0;
    const std::unique_ptr<ibv_device*, decltype(&ibv_free_device_list)> devices(ibv_get_device_list(&count),
                                                                                &ibv_free_device_list);
    std::string there;
    for (int i = 0; devices && i < count; ++i) {
        ibv_device* device = devices.get()[i];
        const char* found = ibv_get_device_name(device);
        if (name != found) {
            there += (there.empty() ? "" : ", ") + std::string(found);
            continue;
        }
        Context context(ibv_open_device(device), &ibv_close_device);
        if (!context) fail_with_errno(name, "cannot be opened");
        return context;
    }
    fail(name, "there is no such device; there " + (there.empty() ? "are none" : "is " + there));
}

struct Place {
    std::uint8_t port = 0;
    std::uint8_t gid_index = 0;
    ibv_mtu mtu = IBV_MTU_1024;
};

bool is_ipv4(const ibv_gid& gid) {
    static constexpr unsigned char kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    return std::memcmp(gid.raw, kMapped, sizeof kMapped) == 0;
}

// The first active port with a RoCEv2 address of IPv4.
Place place_of(ibv_context* context, const std::string& name) {
    ibv_device_attr device{};
    if (ibv_query_device(context, &device) != 0) fail_with_errno(name, "does not tell of itself");
    for (unsigned port = 1; port <= device.phys_port_cnt; ++port) {
        ibv_port_attr attributes{};
        const auto number = static_cast<std::uint8_t>(port);
        if (ibv_query_port(context, number, &attributes) != 0 || attributes.state != IBV_PORT_ACTIVE)
            continue;
        for (int index = 0; index < attributes.gid_tbl_len && index < 256; ++index) {
            ibv_gid_entry entry{};
            if (ibv_query_gid_ex(context, port, static_cast<std::uint32_t>(index), &entry, 0) == 0 &&
                entry.gid_type == IBV_GID_TYPE_ROCE_V2 && is_ipv4(entry.gid))
                return {number, static_cast<std::uint8_t>(index), attributes.active_mtu};
        }
    }
    fail(name, "has no active port with an IPv4 address for RoCEv2");
}

ibv_gid gid_of(const std::string& peer, const std::string& name) {
    ibv_gid gid{};
    gid.raw[10] = gid.raw[11] = 0xff;
    if (inet_pton(AF_INET, peer.c_str(), gid.raw + 12) != 1)
        fail(name, peer + " is no IPv4 address of a sender");
    return gid;
}

// Ring memory, its registration, and the queue pair that may write to it; gone in the opposite order.
struct Resources {
    void* memory = MAP_FAILED;
    std::size_t bytes = 0;
    ibv_mr* region = nullptr;
    ibv_cq* completions = nullptr;
    ibv_qp* pair = nullptr;

    Resources() = default;
    Resources(const Resources&) = delete;
    Resources& operator=(const Resources&) = delete;
    ~Resources() {
        if (pair != nullptr) ibv_destroy_qp(pair);
        if (completions != nullptr) ibv_destroy_cq(completions);
        if (region != nullptr) ibv_dereg_mr(region);
        if (memory != MAP_FAILED) munmap(memory, bytes);
    }
};

}  // namespace

struct RdmaDevice::Port {
    Context context;
    std::unique_ptr<ibv_pd, decltype(&ibv_dealloc_pd)> domain;
    Place place;
    ibv_gid peer;

    void make(Resources& made, std::size_t bytes, const std::string& name) const {
        made.bytes = bytes;
        made.memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (made.memory == MAP_FAILED) fail_with_errno(name, "no memory for a ring");
        made.region =
            ibv_reg_mr(domain.get(), made.memory, bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
        if (made.region == nullptr) fail_with_errno(name, "cannot register a ring");
        made.completions = ibv_create_cq(context.get(), 1, nullptr, nullptr, 0);
        if (made.completions == nullptr) fail_with_errno(name, "cannot make a completion queue");
        ibv_qp_init_attr wanted{};
        wanted.send_cq = wanted.recv_cq = made.completions;
        wanted.qp_type = IBV_QPT_UC;
        wanted.cap = {
            .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
        made.pair = ibv_create_qp(domain.get(), &wanted);
        if (made.pair == nullptr) fail_with_errno(name, "cannot make a queue pair");
    }

    // To the state in which it receives (IBTA 1.4, 10.3.1: Init, Ready to Receive).
    void make_ready(ibv_qp* pair, std::uint32_t psn, const std::string& name) const {
        ibv_qp_attr init{};
        init.qp_state = IBV_QPS_INIT;
        init.port_num = place.port;
        init.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
        if (ibv_modify_qp(pair, &init,
                          IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) != 0)
            fail_with_errno(name, "cannot start a queue pair");
        ibv_qp_attr ready{};
        ready.qp_state = IBV_QPS_RTR;
        ready.path_mtu = place.mtu;
        ready.dest_qp_num = pair->qp_num;  // the program sends from none: nothing is ever sent back
        ready.rq_psn = psn;
        ready.ah_attr.is_global = 1;
        ready.ah_attr.port_num = place.port;
        ready.ah_attr.grh.dgid = peer;
        ready.ah_attr.grh.sgid_index = place.gid_index;
        ready.ah_attr.grh.hop_limit = 64;
        if (ibv_modify_qp(pair, &ready,
                          IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN) != 0)
            fail_with_errno(name, "cannot have a queue pair receive");
    }
};

RdmaDevice::RdmaDevice(const std::string& name, const std::string& peer, Format format)
    : name_(name), format_(format) {
    Context context = open_device(name);
    std::unique_ptr<ibv_pd, decltype(&ibv_dealloc_pd)> domain(ibv_alloc_pd(context.get()), &ibv_dealloc_pd);
    if (!domain) fail_with_errno(name, "cannot make a protection domain");
    const Place place = place_of(context.get(), name);
    port_ = std::make_shared<Port>(Port{std::move(context), std::move(domain), place, gid_of(peer, name)});
}

RdmaDevice::~RdmaDevice() = default;

RdmaRing RdmaDevice::add(std::uint32_t slots, std::uint32_t psn) {
    const auto made = std::make_shared<Resources>();
    port_->make(*made, slots * bytes_of(format_), name_);
    port_->make_ready(made->pair, psn, name_);
    auto* memory = static_cast<std::byte*>(made->memory);
    rings_.push_back(
        std::make_unique<Ring>(Ring{PolledRing(format_, memory, slots), made->pair->qp_num, made}));
    return {made->pair->qp_num, made->region->rkey, reinterpret_cast<std::uint64_t>(made->memory)};
}

#else

namespace acapella::collector {

struct RdmaDevice::Port {};

RdmaDevice::RdmaDevice(const std::string& name, const std::string&, Format format)
    : name_(name), format_(format) {
    throw input::InputError(
        "cannot_open", "RDMA device " + name,
        "the core was built without libibverbs (apt-get install libibverbs-dev, make setup)");
}
RdmaDevice::~RdmaDevice() = default;
RdmaRing RdmaDevice::add(std::uint32_t, std::uint32_t) { return {}; }

#endif

void RdmaDevice::remove(std::uint32_t number) {
    std::erase_if(rings_, [number](const auto& ring) { return ring->number == number; });
}

}  // namespace acapella::collector
