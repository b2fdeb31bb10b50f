// Community ID flow hashing, version 1 (github.com/corelight/community-id-spec): equal for both directions.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "flow/flow_keys.hpp"

struct evp_md_ctx_st;
struct evp_md_st;

namespace acapella {

class CommunityIds {
  public:
    CommunityIds();

    // The id with seed 0: "1:" and 28 characters of base64. Null unless the protocol is TCP, UDP or SCTP and
    // the ports are known: the specification hashes ICMP type and code, which a flow does not have, and
    // implementations disagree on protocols without ports.
    [[nodiscard]] std::optional<std::string> of(const Endpoints& endpoints) const;

  private:
    struct Free {
        void operator()(evp_md_ctx_st* context) const;
        void operator()(evp_md_st* digest) const;
    };
    std::unique_ptr<evp_md_st, Free> sha1_;
    std::unique_ptr<evp_md_ctx_st, Free> context_;
};

}  // namespace acapella
