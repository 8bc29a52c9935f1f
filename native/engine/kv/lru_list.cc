#include "engine/kv/lru_list.h"

namespace monolith {

void LruList::append(PageId page, uint64_t now) {
  reach(page);
  link(page) = {newest_, kNoPage, now};
  if (newest_ != kNoPage)
    link(newest_).newer = page;
  else
    oldest_ = page;
  newest_ = page;
}

void LruList::prepend(PageId page) {
  reach(page);
  link(page) = {kNoPage, oldest_, 0};
  if (oldest_ != kNoPage)
    link(oldest_).older = page;
  else
    newest_ = page;
  oldest_ = page;
}

void LruList::remove(PageId page) {
  const Link& gone = link(page);
  if (gone.older != kNoPage)
    link(gone.older).newer = gone.newer;
  else
    oldest_ = gone.newer;
  if (gone.newer != kNoPage)
    link(gone.newer).older = gone.older;
  else
    newest_ = gone.older;
}

}  // namespace monolith
