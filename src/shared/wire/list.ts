// The JSON of the dashboard API and the operator API is declared once, in this directory. The server sends it, and the
// dashboard imports only the types, so the dashboard's pages contain no server code. Times are RFC 3339, money is a
// number with the currency as separate text, and lists are ListPage objects.

/** Query parameters: `limit` from 1 to 100 (default: 20), `after`: the `next` value from the previous page. */
export interface ListPage<T> {
  object: 'list';
  data: T[];
  has_more: boolean;
  next: string | null;
}
