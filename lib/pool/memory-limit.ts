/** What a pool will hand out at most: everything, so many bytes, or it cannot say. */
export type MemoryLimit =
  | { readonly kind: 'infinite' }
  | { readonly kind: 'finite'; readonly bytes: number }
  | { readonly kind: 'unknown' };
