//! Buffers used again: fresh memory costs a page fault every 4 KiB, which halves the speed of columns.

use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use arrow_buffer::Buffer;

/// Keeps buffers that Arrow has let go of. Shared by all scans of a process; any thread may give back.
#[derive(Debug, Default)]
pub struct Pool {
    free: Mutex<Free>,
}

#[derive(Debug, Default)]
pub(crate) struct Free {
    bytes: Vec<Vec<u8>>,
    i32s: Vec<Vec<i32>>,
    i64s: Vec<Vec<i64>>,
    u128s: Vec<Vec<u128>>,
    held: usize,
}

/// Bytes that a pool keeps at the most; what comes back beyond is freed.
const KEEP: usize = 256 << 20;

/// Looks at a lock that another thread has: some microseconds, where it needs a tenth of one.
const TRIES: usize = 200;

/// Element types that the pool has buffers of.
pub(crate) trait Element: bytemuck::NoUninit + Send + Sync + 'static {
    fn list(free: &mut Free) -> &mut Vec<Vec<Self>>;
}

macro_rules! element {
    ($type:ty, $list:ident) => {
        impl Element for $type {
            fn list(free: &mut Free) -> &mut Vec<Vec<Self>> {
                &mut free.$list
            }
        }
    };
}

element!(u8, bytes);
element!(i32, i32s);
element!(i64, i64s);
element!(u128, u128s);

impl Pool {
    /// An empty pool.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// An empty buffer; see [`Pool::take_scratch`].
    pub(crate) fn take<T: Element>(&self, want: usize) -> Vec<T> {
        let mut found = self.take_scratch(want);
        found.clear();
        found
    }

    /// A buffer with whatever it held before: the tightest that has room for `want` elements, else the roomiest, so
    /// that small columns do not take away the memory of large ones.
    pub(crate) fn take_scratch<T: Element>(&self, want: usize) -> Vec<T> {
        let Some(mut free) = self.free() else { return Vec::new() };
        let list = T::list(&mut free);
        let rank = |(_, buffer): &(usize, &Vec<T>)| match buffer.capacity() {
            room if room >= want => (0, room),
            room => (1, usize::MAX - room),
        };
        let Some((best, _)) = list.iter().enumerate().min_by_key(rank) else { return Vec::new() };
        let found = list.swap_remove(best);
        free.held -= found.capacity() * size_of::<T>();
        found
    }

    /// What lies ready; `None` while another thread is at it for longer than it should. Nobody waits without end: in a
    /// forked process the thread that had the lock is not there any more. Not to wait at all costs more: fresh memory
    /// here, and page faults, which stop both threads.
    fn free(&self) -> Option<MutexGuard<'_, Free>> {
        for _ in 0..TRIES {
            match self.free.try_lock() {
                Ok(free) => return Some(free),
                Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => std::hint::spin_loop(),
            }
        }
        None
    }

    fn give<T: Element>(&self, buffer: Vec<T>) {
        let size = buffer.capacity() * size_of::<T>();
        let Some(mut free) = self.free() else { return };
        if size > 0 && free.held + size <= KEEP {
            free.held += size;
            T::list(&mut free).push(buffer);
        }
    }

    /// Hands a buffer to Arrow, to come back when the last array over it is gone.
    pub(crate) fn lend<T: Element>(self: &Arc<Self>, values: Vec<T>) -> Buffer {
        Buffer::from(bytes::Bytes::from_owner(Lent { values, pool: Arc::clone(self) }))
    }

    /// Bytes that lie ready.
    #[must_use]
    pub fn held(&self) -> usize {
        self.free().map_or(0, |free| free.held)
    }
}

struct Lent<T: Element> {
    values: Vec<T>,
    pool: Arc<Pool>,
}

impl<T: Element> AsRef<[u8]> for Lent<T> {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(&self.values)
    }
}

impl<T: Element> Drop for Lent<T> {
    fn drop(&mut self) {
        self.pool.give(std::mem::take(&mut self.values));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_when_arrow_lets_go() {
        let pool = Pool::new();
        let lent = pool.lend(vec![1i64, 2, 3]);
        let slice = lent.slice(8);
        drop(lent);
        assert_eq!(pool.held(), 0);
        drop(slice);
        assert_eq!(pool.held(), 24);
        assert!(pool.take::<i64>(1).capacity() >= 3);
        assert_eq!(pool.held(), 0);
    }

    #[test]
    fn the_tightest_that_fits_else_the_roomiest() {
        let pool = Pool::new();
        drop([10, 1000, 100].map(|room| pool.lend(Vec::<u8>::with_capacity(room))));
        assert_eq!(pool.take::<u8>(50).capacity(), 100);
        assert_eq!(pool.take::<u8>(5000).capacity(), 1000);
        assert_eq!(pool.take::<u8>(0).capacity(), 10);
        assert_eq!(pool.take::<u8>(0).capacity(), 0);
    }
}
