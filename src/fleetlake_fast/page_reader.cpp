#include "page_reader.hpp"

#include <algorithm>

namespace fleetlake {
namespace {

constexpr int64_t kMostColons = 900;  // the Python reader counts the members of a value with more
constexpr int kMostDigits = 300;      // a double has at most 309 before its point

bool is_digit_like(char byte) {
  // Bytes of characters beyond ASCII count too: some of those are digits to Python's patterns.
  return (byte >= '0' && byte <= '9') || static_cast<signed char>(byte) < 0;
}

bool is_start(char byte) {
  return byte == '[' || byte == ':' || byte == ',' || byte == ' ' || (byte >= '\t' && byte <= '\r') ||
         static_cast<signed char>(byte) < 0;
}

// Returns whether a learned member's text may hold what only the Python reader judges: very many
// members, or a number too large for a double. It may be wrong only in saying that it may.
bool is_doubtful(std::string_view text) {
  int64_t colons = 0;
  int run = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    const char byte = text[at];
    colons += byte == ':';
    run = is_digit_like(byte) ? run + 1 : 0;
    if (run > kMostDigits) return true;
    if ((byte != 'e' && byte != 'E') || at == 0 || !is_digit_like(text[at - 1])) continue;
    size_t power = at + 1;
    if (power < text.size() && text[power] == '+') ++power;
    if (power + 3 > text.size() || !is_digit_like(text[power]) || !is_digit_like(text[power + 1]) ||
        !is_digit_like(text[power + 2]))
      continue;
    size_t first = at;
    while (first > 0 && (is_digit_like(text[first - 1]) || text[first - 1] == '.')) --first;
    if (first > 0 && text[first - 1] == '-') --first;
    if (first == 0 || is_start(text[first - 1]) || is_start(text[first])) return true;
  }
  return colons > kMostColons;
}

}  // namespace

bool PageReader::add(const Path& path, Role role, size_t index) {
  if (path.empty()) return false;
  Member* above = &record_;
  for (size_t depth = 0; depth < path.size(); ++depth) {
    const bool is_last = depth + 1 == path.size();
    if (role == Role::column) above->below.push_back(index);
    auto& members = above->members;
    const auto known = std::find_if(members.begin(), members.end(),
                                    [&](const Member& one) { return one.name == path[depth]; });
    if (known == members.end()) {
      if (members.size() == kMostMembers) return false;
      members.push_back({path[depth], is_last ? role : Role::object, is_last ? index : 0, {}, {}});
      above = &members.back();
    } else {
      if (is_last || known->role != Role::object) return false;
      above = &*known;
    }
  }
  return true;
}

bool PageReader::add_column(const Path& path, Kind kind, bool is_required) {
  columns_.emplace_back(kind, is_required);
  return add(path, Role::column, columns_.size() - 1);
}

bool PageReader::add_constant(const Path& path) { return add(path, Role::constant, 0); }

bool PageReader::add_learned(const Path& path) {
  if (!add(path, Role::learned, found_.size())) return false;
  auto* members = &extra_;
  for (size_t depth = 0; depth + 1 < path.size(); ++depth) {
    auto known = std::find_if(members->begin(), members->end(),
                              [&](const Extra& one) { return one.name == path[depth]; });
    if (known == members->end()) {
      members->push_back({path[depth], true, 0, {}});
      known = members->end() - 1;
    }
    members = &known->members;
  }
  members->push_back({path.back(), false, found_.size(), {}});
  found_.emplace_back();
  return true;
}

void PageReader::finish() { columns_.emplace_back(Kind::json, false); }

bool PageReader::read(std::string_view body, Paging& paging) {
  if (body.size() > kMostBytes) return false;
  for (auto& column : columns_) column.clear();
  JsonText json(body);
  bool has_records = false, has_paging = false;
  const std::string_view beside = is_v2_ ? "meta" : "links";
  if (!json.take('{')) return false;
  do {
    std::string_view name;
    if (!json.take_name(name)) return false;
    bool is_read;
    if (name == "data") {
      is_read = !has_records && read_records(json, paging);
      has_records = true;
    } else if (name == beside) {
      is_read = !has_paging && read_paging(json, paging);
      has_paging = true;
    } else {
      is_read = json.skip_value(0);
    }
    if (!is_read) return false;
  } while (json.take(','));
  return json.take('}') && json.is_at_end() && has_records && has_paging;
}

bool PageReader::read_records(JsonText& json, Paging& paging) {
  if (!json.take('[')) return false;
  if (json.take(']')) return true;
  do {
    if (static_cast<size_t>(++paging.count) > kMostRecords) return false;
    std::fill(found_.begin(), found_.end(), std::string_view());
    if (!read_object(json, record_) || !append_extra()) return false;
  } while (json.take(','));
  return json.take(']');
}

bool PageReader::read_object(JsonText& json, const Member& plan) {
  if (!json.take('{')) return false;
  const auto& members = plan.members;
  uint64_t seen = 0;
  size_t expected = 0;
  if (!json.take('}')) {
    do {
      if (expected < members.size() && json.peek() && json.take_expected(members[expected].name)) {
      } else {
        std::string_view name;
        if (!json.take_name(name)) return false;
        expected = 0;
        while (expected < members.size() && members[expected].name != name) ++expected;
        if (expected == members.size()) return false;
      }
      const uint64_t bit = uint64_t{1} << expected;
      if (seen & bit || !read_member(json, members[expected])) return false;
      seen |= bit;
      ++expected;
    } while (json.take(','));
    if (!json.take('}')) return false;
  }
  for (size_t index = 0; index < members.size(); ++index)
    if (!(seen >> index & 1) && !append_missing(members[index])) return false;
  return true;
}

bool PageReader::read_member(JsonText& json, const Member& member) {
  switch (member.role) {
    case Role::object:
      return read_object(json, member);
    case Role::column:
      return columns_[member.index].append(json);
    case Role::learned: {
      auto& raw = found_[member.index];
      return json.take_raw(raw) && !is_doubtful(raw);
    }
    default:
      return json.peek() == '"' && json.skip_value(0);
  }
}

bool PageReader::append_missing(const Member& member) {
  if (member.role == Role::column) return columns_[member.index].append_null();
  for (const auto column : member.below)
    if (!columns_[column].append_null()) return false;
  return true;
}

bool PageReader::append_extra() {
  auto& column = columns_.back();
  if (!write_extra(extra_, column.content())) return column.append_null();
  column.end_value();
  return true;
}

// Writes the object of the learned members that a record has, and returns whether it has any.
bool PageReader::write_extra(const std::vector<Extra>& members, std::vector<char>& text) const {
  const auto put = [&](std::string_view part) {
    text.insert(text.end(), part.begin(), part.end());
  };
  const auto start = text.size();
  bool is_first = true;
  for (const auto& member : members) {
    if (!member.is_object && found_[member.index].empty()) continue;
    const auto before = text.size();
    put(is_first ? "{\"" : ",\"");
    put(member.name);
    put("\":");
    if (!member.is_object) {
      put(found_[member.index]);
    } else if (!write_extra(member.members, text)) {
      text.resize(before);
      continue;
    }
    is_first = false;
  }
  if (text.size() == start) return false;
  put("}");
  return true;
}

bool PageReader::read_paging(JsonText& json, Paging& paging) {
  bool has_limit = false, has_next = false;
  if (!json.take('{')) return false;
  if (json.take('}')) return !is_v2_;
  do {
    std::string_view name;
    if (!json.take_name(name)) return false;
    if (name == "next") {
      if (has_next) return false;
      has_next = true;
      paging.has_next = json.peek() != 'n';
      if (paging.has_next ? !json.append_string(paging.next) : !json.take_null()) return false;
    } else if (is_v2_ && name == "limit") {
      std::string_view number;
      bool is_whole;
      if (has_limit || !json.take_number(number, is_whole) || !is_whole ||
          !whole_of(number, paging.limit) || paging.limit < 1)
        return false;
      has_limit = true;
    } else if (!json.skip_value(0)) {
      return false;
    }
  } while (json.take(','));
  return json.take('}') && (!is_v2_ || (has_limit && has_next));
}

}  // namespace fleetlake
