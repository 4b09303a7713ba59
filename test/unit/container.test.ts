/** The container's limit, on file trees as kernels and runtimes lay them out. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { ContainerReader } from '../../lib/counting/container';

const roots: string[] = [];

function tree(files: Record<string, string>): string {
  const root = mkdtempSync(path.join(os.tmpdir(), 'oom-guard-test-cgroup-'));
  roots.push(root);
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(path.dirname(path.join(root, name)), { recursive: true });
    writeFileSync(path.join(root, name), text);
  }
  return root;
}

afterEach(() => {
  for (const root of roots.splice(0)) rmSync(root, { recursive: true, force: true });
});

const V2_MOUNT = '30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n';
const V1_MOUNT =
  '36 25 0:31 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n';
const UNLIMITED_V1 = '9223372036854771712\n';

test('v2: the lowest limit on the way up, and what is charged there', () => {
  const root = tree({
    '/proc/self/cgroup': '0::/pod/app\n',
    '/proc/self/mountinfo': V2_MOUNT,
    '/sys/fs/cgroup/memory.stat': 'anon 9000000\nfile 1\n',
    '/sys/fs/cgroup/pod/memory.max': '524288000\n',
    '/sys/fs/cgroup/pod/memory.current': '300000000\n',
    '/sys/fs/cgroup/pod/memory.stat': 'anon 100000000\nfile 200000000\n',
    '/sys/fs/cgroup/pod/app/memory.max': 'max\n',
    '/sys/fs/cgroup/pod/app/memory.current': '60000000\n',
    '/sys/fs/cgroup/pod/app/memory.stat': 'anon 50000000\nfile 1\n',
  });
  expect(new ContainerReader(root).read()).toEqual({
    limit: 524288000,
    anon: 100000000,
    current: 300000000,
    version: 2,
    path: '/sys/fs/cgroup/pod',
  });
});

test('v2 with a namespace: the own group is the root of the mount', () => {
  const root = tree({
    '/proc/self/cgroup': '0::/\n',
    '/proc/self/mountinfo': V2_MOUNT,
    '/sys/fs/cgroup/memory.max': '1073741824\n',
    '/sys/fs/cgroup/memory.current': '5\n',
    '/sys/fs/cgroup/memory.stat': 'anon 4\n',
  });
  expect(new ContainerReader(root).read()).toMatchObject({ limit: 1073741824, anon: 4 });
});

test('v2 without any limit', () => {
  const root = tree({
    '/proc/self/cgroup': '0::/a\n',
    '/proc/self/mountinfo': V2_MOUNT,
    '/sys/fs/cgroup/a/memory.max': 'max\n',
    '/sys/fs/cgroup/a/memory.current': '5\n',
    '/sys/fs/cgroup/a/memory.stat': 'anon 4\n',
  });
  expect(new ContainerReader(root).read()).toMatchObject({ limit: undefined, anon: 4 });
});

test('v1 in a container: the mount shows the group itself, /proc the path on the host', () => {
  const root = tree({
    '/proc/self/cgroup': '5:cpu:/docker/abc\n4:memory:/docker/abc\n1:name=systemd:/docker/abc\n',
    '/proc/self/mountinfo': V1_MOUNT.replace(' / /sys', ' /docker/abc /sys'),
    '/sys/fs/cgroup/memory/memory.limit_in_bytes': '500000000\n',
    '/sys/fs/cgroup/memory/memory.usage_in_bytes': '400000000\n',
    '/sys/fs/cgroup/memory/memory.stat': 'cache 1\nrss 2\ntotal_rss 123\n',
  });
  expect(new ContainerReader(root).read()).toEqual({
    limit: 500000000,
    anon: 123,
    current: 400000000,
    version: 1,
    path: '/sys/fs/cgroup/memory',
  });
});

test('v1: a huge number means no limit, and a parent may still have one', () => {
  const root = tree({
    '/proc/self/cgroup': '4:memory:/slice/service\n',
    '/proc/self/mountinfo': V1_MOUNT,
    '/sys/fs/cgroup/memory/memory.limit_in_bytes': UNLIMITED_V1,
    '/sys/fs/cgroup/memory/memory.usage_in_bytes': '9\n',
    '/sys/fs/cgroup/memory/memory.stat': 'total_rss 9\n',
    '/sys/fs/cgroup/memory/slice/memory.limit_in_bytes': '777\n',
    '/sys/fs/cgroup/memory/slice/memory.usage_in_bytes': '9\n',
    '/sys/fs/cgroup/memory/slice/memory.stat': 'total_rss 8\n',
    '/sys/fs/cgroup/memory/slice/service/memory.limit_in_bytes': UNLIMITED_V1,
    '/sys/fs/cgroup/memory/slice/service/memory.usage_in_bytes': '9\n',
    '/sys/fs/cgroup/memory/slice/service/memory.stat': 'total_rss 7\n',
  });
  expect(new ContainerReader(root).read()).toMatchObject({ limit: 777, anon: 8 });
});

test('hybrid: the memory controller is where v1 has it', () => {
  const root = tree({
    '/proc/self/cgroup': '4:memory:/a\n0::/b\n',
    '/proc/self/mountinfo': V2_MOUNT.replace('/sys/fs/cgroup', '/sys/fs/cgroup/unified') + V1_MOUNT,
    '/sys/fs/cgroup/unified/b/cgroup.procs': '',
    '/sys/fs/cgroup/memory/a/memory.limit_in_bytes': '42\n',
    '/sys/fs/cgroup/memory/a/memory.usage_in_bytes': '2\n',
    '/sys/fs/cgroup/memory/a/memory.stat': 'total_rss 1\n',
  });
  expect(new ContainerReader(root).read()).toMatchObject({ limit: 42, anon: 1, version: 1 });
});

test('a path outside what is mounted: the mount itself', () => {
  const root = tree({
    '/proc/self/cgroup': '4:memory:/elsewhere\n',
    '/proc/self/mountinfo': V1_MOUNT.replace(' / /sys', ' /docker/abc /sys'),
    '/sys/fs/cgroup/memory/memory.limit_in_bytes': '42\n',
    '/sys/fs/cgroup/memory/memory.usage_in_bytes': '2\n',
    '/sys/fs/cgroup/memory/memory.stat': 'total_rss 1\n',
  });
  expect(new ContainerReader(root).read()).toMatchObject({ limit: 42 });
});

test.each([
  {},
  { '/proc/self/cgroup': '' },
  { '/proc/self/cgroup': 'nonsense', '/proc/self/mountinfo': 'nonsense\n- - -' },
  { '/proc/self/cgroup': '0::/a\n', '/proc/self/mountinfo': V2_MOUNT },
])('nothing to read: %o', (files) => {
  expect(new ContainerReader(tree(files as Record<string, string>)).read()).toBeUndefined();
});

test('this machine', () => {
  const reading = new ContainerReader().read();
  if (reading === undefined) return;
  expect(reading.anon).toBeGreaterThan(0);
  expect(reading.current).toBeGreaterThan(0);
});
