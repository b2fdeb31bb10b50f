#include "collector/receive/rdma_ring.hpp"

#ifdef ACAPELLA_HAS_IBVERBS
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstring>
#include <new>
#endif

namespace acapella::collector {

#ifdef ACAPELLA_HAS_IBVERBS
namespace {

constexpr std::size_t kPage = 4096;

template <auto Close>
struct Closer {
    template <typename T>
    void operator()(T* held) const {
        Close(held);
    }
};
template <typename T, auto Close>
using Owned = std::unique_ptr<T, Closer<Close>>;

struct FreePages {
    void operator()(std::byte* memory) const { ::operator delete[](memory, std::align_val_t{kPage}); }
};

template <typename Pointer>
Pointer checked(Pointer pointer, const std::string& what) {
    if (!pointer) throw RdmaError(what + ": " + std::strerror(errno));
    return pointer;
}

void checked(int error, const std::string& what) {
    if (error != 0) throw RdmaError(what + ": " + std::strerror(error));
}

// Members are destroyed in reverse order, so the queue pair is destroyed before the objects that it uses.
class VerbsRing : public RdmaRing {
  public:
    VerbsRing(ibv_device* device, const RdmaConfig& config)
        : context_(checked(ibv_open_device(device), "cannot open " + std::string(device->name))),
          domain_(checked(ibv_alloc_pd(context_.get()), "cannot allocate a protection domain")),
          bytes_(std::size_t{config.slots} * bytes_of(config.format)),
          ring_(static_cast<std::byte*>(::operator new[](bytes_, std::align_val_t{kPage}))) {
        std::memset(ring_.get(), 0, bytes_);
        region_.reset(checked(
            ibv_reg_mr(domain_.get(), ring_.get(), bytes_, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE),
            "cannot register " + std::to_string(bytes_) + " bytes of memory (ulimit -l)"));
        queue_.reset(checked(ibv_create_cq(context_.get(), 1, nullptr, nullptr, 0),
                             "cannot create a completion queue"));
        create_queue_pair();
        move_to_init(config);
        move_to_rtr(config);
    }

    std::uint32_t number() const override { return pair_->qp_num; }
    std::uint32_t key() const override { return region_->rkey; }
    std::uint64_t base() const override { return reinterpret_cast<std::uintptr_t>(ring_.get()); }
    const std::byte* memory() const override { return ring_.get(); }

  private:
    void create_queue_pair() {
        ibv_qp_init_attr attributes{};
        attributes.send_cq = attributes.recv_cq = queue_.get();
        attributes.cap.max_send_wr = attributes.cap.max_recv_wr = 1;
        attributes.cap.max_send_sge = attributes.cap.max_recv_sge = 1;
        attributes.qp_type = IBV_QPT_UC;
        pair_.reset(
            checked(ibv_create_qp(domain_.get(), &attributes), "cannot create a queue pair of type UC"));
    }

    void move_to_init(const RdmaConfig& config) {
        ibv_qp_attr attributes{};
        attributes.qp_state = IBV_QPS_INIT;
        attributes.port_num = config.port;
        attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
        checked(ibv_modify_qp(pair_.get(), &attributes,
                              IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
                "cannot initialize the queue pair");
    }

    void move_to_rtr(const RdmaConfig& config) {
        ibv_qp_attr attributes{};
        attributes.qp_state = IBV_QPS_RTR;
        attributes.path_mtu = IBV_MTU_1024;
        attributes.dest_qp_num = config.peer_queue_pair;
        attributes.rq_psn = config.initial_psn;
        attributes.ah_attr.is_global = 1;
        attributes.ah_attr.port_num = config.port;
        attributes.ah_attr.grh.hop_limit = 64;
        attributes.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(config.gid_index);
        // The GID of an IPv4 address is the IPv4-mapped IPv6 address (IBTA annex A17).
        std::uint8_t* gid = attributes.ah_attr.grh.dgid.raw;
        gid[10] = gid[11] = 0xff;
        std::memcpy(gid + 12, config.peer.data(), config.peer.size());
        checked(ibv_modify_qp(pair_.get(), &attributes,
                              IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN),
                "cannot set the queue pair to ready-to-receive");
    }

    Owned<ibv_context, ibv_close_device> context_;
    Owned<ibv_pd, ibv_dealloc_pd> domain_;
    std::size_t bytes_;
    std::unique_ptr<std::byte[], FreePages> ring_;
    Owned<ibv_mr, ibv_dereg_mr> region_;
    Owned<ibv_cq, ibv_destroy_cq> queue_;
    Owned<ibv_qp, ibv_destroy_qp> pair_;
};

class DeviceList {
  public:
    DeviceList() : list_(ibv_get_device_list(&count_)) {}
    DeviceList(const DeviceList&) = delete;
    DeviceList& operator=(const DeviceList&) = delete;
    ~DeviceList() {
        if (list_ != nullptr) ibv_free_device_list(list_);
    }
    int count() const { return list_ == nullptr ? 0 : count_; }
    ibv_device* operator[](int i) const { return list_[i]; }

  private:
    int count_ = 0;
    ibv_device** list_;
};

}  // namespace

std::vector<std::string> RdmaRing::devices() {
    const DeviceList list;
    std::vector<std::string> names;
    names.reserve(static_cast<std::size_t>(list.count()));
    for (int i = 0; i < list.count(); ++i) names.emplace_back(list[i]->name);
    return names;
}

std::unique_ptr<RdmaRing> RdmaRing::open(const RdmaConfig& config) {
    const DeviceList list;
    if (list.count() == 0) throw RdmaError("no RDMA device on this machine");
    for (int i = 0; i < list.count(); ++i)
        if (config.device.empty() || config.device == list[i]->name)
            return std::make_unique<VerbsRing>(list[i], config);
    throw RdmaError("no RDMA device " + config.device + " on this machine");
}

#else

std::vector<std::string> RdmaRing::devices() { return {}; }

std::unique_ptr<RdmaRing> RdmaRing::open(const RdmaConfig& /*config*/) {
    throw RdmaError("the native core was built without libibverbs (Debian: libibverbs-dev, then make setup)");
}

#endif

}  // namespace acapella::collector
