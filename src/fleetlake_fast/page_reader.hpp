// Reads the body of a list response into columns, by a plan made of an endpoint's row.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "columns.hpp"
#include "json_text.hpp"

namespace fleetlake {

using Path = std::vector<std::string>;

constexpr size_t kMostBytes = 4'000'000;  // of a page; the Python reader looks closer at larger ones
constexpr size_t kMostRecords = 5'000;
constexpr size_t kMostMembers = 64;  // of one object: one bit each

// What a page says beside its records. `next` is empty if `has_next` is false.
struct Paging {
  int64_t count = 0;
  int64_t limit = 0;
  bool has_next = false;
  std::vector<char> next;
};

class PageReader {
 public:
  // `is_v2` chooses the envelope: `meta` with a limit and a link, or `links` with a link.
  explicit PageReader(bool is_v2) : is_v2_(is_v2) {}

  // Each returns false if the plan cannot hold the member.
  bool add_column(const Path& path, Kind kind, bool is_required);
  bool add_learned(const Path& path);
  bool add_constant(const Path& path);
  void finish();  // after the last member: adds the column of the learned ones

  // Returns false for a page that the Python reader must judge; `columns` is then of no use.
  bool read(std::string_view body, Paging& paging);

  const std::vector<Column>& columns() const { return columns_; }

 private:
  enum class Role : uint8_t { object, column, learned, constant };

  struct Member {
    std::string name;
    Role role;
    size_t index = 0;  // of the column or of the learned member
    std::vector<Member> members;
    std::vector<size_t> below;  // columns anywhere inside
  };

  // The learned members as they nest, each with its position.
  struct Extra {
    std::string name;
    bool is_object;
    size_t index = 0;
    std::vector<Extra> members;
  };

  bool add(const Path& path, Role role, size_t index);
  bool read_records(JsonText& json, Paging& paging);
  bool read_object(JsonText& json, const Member& plan);
  bool read_member(JsonText& json, const Member& member);
  bool read_paging(JsonText& json, Paging& paging);
  bool append_missing(const Member& member);
  bool append_extra();
  bool write_extra(const std::vector<Extra>& members, std::vector<char>& text) const;

  bool is_v2_;
  Member record_{"", Role::object, 0, {}, {}};
  std::vector<Extra> extra_;
  std::vector<std::string_view> found_;  // the learned members of one record; empty if missing
  std::vector<Column> columns_;
};

}  // namespace fleetlake
