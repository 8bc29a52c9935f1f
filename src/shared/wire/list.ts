// The JSON of the dashboard API and the operator API is declared once, in this directory. The server sends it, and the
// dashboard imports the types only, so no server code gets into the dashboard's pages. Names and fields follow
// models-and-accounts.md, sections 5 and 6, and add what those sections do not define. Times are RFC 3339, money is a
// number with the currency as separate text, lists are ListPage.

/** Query parameters: `limit` 1 … 100 (20), `after`: the `next` of the previous page. */
export interface ListPage<T> {
  object: 'list';
  data: T[];
  has_more: boolean;
  next: string | null;
}
