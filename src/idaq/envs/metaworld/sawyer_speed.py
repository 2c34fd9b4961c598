"""Meta-World's robot environments with less Python per step and the same numbers, bit for bit.

`speed_up` makes a subclass of an environment class. Nothing in metaworld itself is changed, so that
the class and its faster subclass can be compared side by side. In the subclass

1. positions of bodies and sites are read from views that are looked up by name once;
2. observations are written into one array instead of being split and stacked, and clipped with two
   ufuncs;
3. contacts are compared as lists of ids instead of one wrapper object per contact;
4. goal sites are no longer put in place before MuJoCo's forward pass, which overwrites them, and
   the accelerations of `mj_rnePostConstraint`, which nothing reads, are left out;
5. a reset prepares the scene twice; the first time only positions are computed and no motion, as
   that physical state is thrown away;
6. rewards of scalars and quaternions of rotations are computed with floats: copies of the
   environment's own methods use the `Rotation` and `reward_utils` given here.

Sums and products keep the order and the precision that they have in metaworld, NumPy and SciPy.
MuJoCo is called with the same state as often as before wherever its solver starts from what the
last call left. `speed_up_script` does the same for a scripted policy.
"""

import math
from functools import cache
from importlib import import_module
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

NUM_CURRENT = 18  # places of one frame in the observation: the hand, the gripper, two objects
NUM_POS, NUM_QUAT = 3, 4
GRIPPER_RANGE = 0.1  # metres between the opened fingers
LONG_TAIL_SCALE = 3.0  # so that the reward is 0.1 where the margin ends
MOCAP_QUAT = np.array([1.0, 0.0, 1.0, 0.0])


@cache
def speed_up(env_class: Any) -> Any:
    """A subclass of a metaworld environment class that steps faster and gives the same numbers."""
    namespace: dict[str, Any] = {}
    for parent in reversed(env_class.__mro__):
        if parent.__module__.startswith("metaworld.envs."):
            members = {k: v for k, v in vars(parent).items() if not k.startswith("__")}
            namespace.update({name: _rebind(member) for name, member in members.items()})
    # The environment's own methods come before the mixin's, which replace the base class's.
    return type(env_class.__name__, (FastSawyer, env_class), namespace)


@cache
def speed_up_script(script_class: Any) -> Any:
    """A subclass of a scripted policy that does not warn of actions beyond the bounds."""
    return type(
        script_class.__name__,
        (script_class,),
        {"get_action": _copy(script_class.get_action, {"move": _move})},
    )


def _rebind(member: Any) -> Any:
    """An environment's member; a method gets the faster `Rotation` and `reward_utils`."""
    if not isinstance(member, FunctionType) or "reward_utils" not in member.__globals__:
        return member
    utils = member.__globals__["reward_utils"]
    faster = SimpleNamespace(**{**vars(utils), "tolerance": _tolerance(utils)})
    return _copy(member, {"Rotation": _Rotation, "reward_utils": faster})


def _copy(function: FunctionType, names: dict[str, Any]) -> FunctionType:
    """A copy of the function that sees other values for some names of its module."""
    scope = {**function.__globals__, **names}
    copy = FunctionType(
        function.__code__, scope, function.__name__, function.__defaults__, function.__closure__
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


class FastSawyer:
    """What the base class of all environments does, with less overhead."""

    # What the environment classes bring with them.
    model: Any
    data: Any
    sawyer_observation_space: Any
    frame_skip: int
    max_path_length: int
    action_scale: float
    mocap_low: Array
    mocap_high: Array
    obj_init_pos: Array
    init_tcp: Array
    reset_model: Any
    evaluate_state: Any
    _set_task_called: bool
    _partially_observable: bool
    _get_pos_objects: Any
    _get_quat_objects: Any
    _get_pos_goal: Any

    _rehearsal = False  # whether this is a preparation whose physical state is thrown away

    def _initialize_simulation(self) -> Any:
        mujoco = import_module("mujoco")  # comes with metaworld, which is an extra
        model, data = super()._initialize_simulation()  # type: ignore[misc]
        self._mj_reset, self._mj_kinematics = mujoco.mj_resetData, mujoco.mj_kinematics
        self._mj_step, self._mj_forward = mujoco.mj_step, mujoco.mj_forward
        # Views: they show what the simulator's memory holds at the time they are read.
        self._body_xpos: dict[str, Array] = {
            model.body(i).name: data.xpos[i] for i in range(model.nbody)
        }
        self._site_xpos: dict[str, Array] = {
            model.site(i).name: data.site_xpos[i] for i in range(model.nsite)
        }
        self._ctrl, self._mocap = data.ctrl, (data.mocap_pos, data.mocap_quat)
        self._pads = model.geom("leftpad_geom").id, model.geom("rightpad_geom").id
        return model, data

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        self.curr_path_length = 0
        self._rehearsal = True
        self.reset_model()  # moves parts of the model, on which the second preparation depends
        self._rehearsal = False
        self._mj_reset(self.model, self.data)
        obs: Array = self.reset_model()
        self._prev_obs = obs[:NUM_CURRENT].copy()
        obs[NUM_CURRENT : 2 * NUM_CURRENT] = self._prev_obs
        return obs, {}

    def step(self, action: Array) -> tuple[Array, Any, bool, bool, dict[str, Any]]:
        if not self._set_task_called:
            raise RuntimeError("You must call env.set_task before using env.step")
        if self.curr_path_length >= self.max_path_length:
            raise ValueError("You must reset the env manually once truncate==True")
        self.set_xyz_action(action[:3])
        self.do_simulation((action[3], -action[3]), self.frame_skip)
        self.curr_path_length += 1
        self._mj_forward(self.model, self.data)
        space = self.sawyer_observation_space
        obs = self._get_obs()
        np.maximum(obs, space.low, out=obs)
        np.minimum(obs, space.high, out=obs)
        self._last_stable_obs = obs
        reward, info = self.evaluate_state(obs, action)
        return obs.copy(), reward, False, self.curr_path_length == self.max_path_length, info

    def do_simulation(self, ctrl: Any, n_frames: int) -> None:
        self._ctrl[:] = ctrl
        if self._rehearsal:
            self._mj_kinematics(self.model, self.data)
        else:
            self._mj_step(self.model, self.data, n_frames)

    def set_xyz_action(self, action: Array) -> None:
        pos, quat = self._mocap
        delta = np.minimum(np.maximum(action, -1), 1) * self.action_scale
        pos[0] = np.minimum(np.maximum(pos[0] + delta, self.mocap_low), self.mocap_high)
        quat[0] = MOCAP_QUAT

    # --- Positions ---

    def get_body_com(self, body_name: str) -> Array:
        return self._body_xpos[body_name]

    def get_endeff_pos(self) -> Array:
        return self._body_xpos["hand"]

    def _get_site_pos(self, site_name: str) -> Array:
        return self._site_xpos[site_name].copy()

    @property
    def tcp_center(self) -> Array:
        sites = self._site_xpos
        center: Array = (sites["rightEndEffector"] + sites["leftEndEffector"]) / 2.0
        return center

    # --- Observations ---

    def _get_curr_obs_combined_no_goal(self) -> Array:
        apart = self._body_xpos["rightclaw"] - self._body_xpos["leftclaw"]
        obs = np.zeros(NUM_CURRENT)
        obs[:NUM_POS] = self.get_endeff_pos()
        obs[NUM_POS] = min(max(math.sqrt(apart.dot(apart)) / GRIPPER_RANGE, 0.0), 1.0)
        pos, quat = self._get_pos_objects(), self._get_quat_objects()
        at = NUM_POS + 1
        for i in range(len(pos) // NUM_POS):
            obs[at : at + NUM_POS] = pos[i * NUM_POS : (i + 1) * NUM_POS]
            at += NUM_POS
            obs[at : at + NUM_QUAT] = quat[i * NUM_QUAT : (i + 1) * NUM_QUAT]
            at += NUM_QUAT
        return obs

    def _get_obs(self) -> Array:
        current = self._get_curr_obs_combined_no_goal()
        obs = np.zeros(2 * NUM_CURRENT + NUM_POS)
        obs[:NUM_CURRENT] = current
        obs[NUM_CURRENT : 2 * NUM_CURRENT] = self._prev_obs
        if not self._partially_observable:
            obs[2 * NUM_CURRENT :] = self._get_pos_goal()
        self._prev_obs = current
        return obs

    # --- Rewards ---

    def touching_object(self, object_geom_id: int) -> bool:
        contact = self.data.contact
        left_pad, right_pad = self._pads
        left = right = 0.0
        for i, pair in enumerate(contact.geom.tolist()):
            if object_geom_id in pair:
                if left_pad in pair:
                    left += self.data.efc_force[contact.efc_address[i]]
                if right_pad in pair:
                    right += self.data.efc_force[contact.efc_address[i]]
        return left > 0 and right > 0

    def _gripper_caging_reward(
        self,
        action: Array,
        obj_pos: Array,
        obj_radius: float,
        pad_success_thresh: float,
        object_reach_radius: float,
        xz_thresh: float,
        desired_gripper_effort: float = 1.0,
        high_density: bool = False,
        medium_density: bool = False,
    ) -> Any:
        if high_density and medium_density:
            raise ValueError("Can only be either high_density or medium_density")
        obj, obj_init, tcp = obj_pos, self.obj_init_pos, self.tcp_center
        pad_bounds = (obj_radius, pad_success_thresh)
        caging_lr = []
        for pad in (self._body_xpos["leftpad"], self._body_xpos["rightpad"]):
            pad_y = float(pad[1])
            margin = abs(abs(pad_y - float(obj_init[1])) - pad_success_thresh)
            caging_lr.append(_long_tail(abs(pad_y - float(obj[1])), pad_bounds, margin))
        xz_margin = _norm_xz(obj_init, self.init_tcp) - xz_thresh
        caging_xz = _long_tail(_norm_xz(tcp, obj), (0.0, xz_thresh), xz_margin)
        caging = _hamacher_product(_hamacher_product(*caging_lr), caging_xz)

        # Single precision from here on where the action has it, as in metaworld.
        closed = min(max(0, action[-1]), desired_gripper_effort) / desired_gripper_effort
        reward = _hamacher_product(caging, closed if caging > 0.97 else 0.0)
        if high_density:
            reward = (reward + caging) / 2
        if medium_density:
            reach_margin = abs(_norm(obj_init - self.init_tcp) - object_reach_radius)
            reach = _long_tail(_norm(obj - tcp), (0.0, object_reach_radius), reach_margin)
            reward = (reward + reach) / 2
        return reward


def _move(from_xyz: Array, to_xyz: Array, p: float) -> Array:
    """The proportional controller of the scripted policies."""
    return p * (to_xyz - from_xyz)


def _long_tail(x: float, bounds: tuple[float, float], margin: float) -> float:
    """`reward_utils.tolerance` of a float with the sigmoid "long_tail"."""
    lower, upper = bounds
    if lower > upper or margin < 0:
        raise ValueError(f"Bounds {bounds} or margin {margin} of a reward are out of order.")
    if lower <= x <= upper:
        return 1.0
    if margin == 0:
        return 0.0
    distance = (lower - x if x < lower else x - upper) / margin
    return 1.0 / ((distance * LONG_TAIL_SCALE) ** 2 + 1.0)  # not a product: it rounds differently


def _tolerance(utils: Any) -> Any:
    """`reward_utils.tolerance` with a shortcut for floats and the sigmoid most often used."""
    general = utils.tolerance

    def tolerance(
        x: Any,
        bounds: tuple[Any, Any] = (0.0, 0.0),
        margin: Any = 0.0,
        sigmoid: str = "gaussian",
        **more: Any,
    ) -> Any:
        floats = isinstance(x, float) and isinstance(margin, float)  # also NumPy's float64
        if sigmoid == "long_tail" and floats and not more:
            return _long_tail(float(x), (float(bounds[0]), float(bounds[1])), float(margin))
        return general(x, bounds=bounds, margin=margin, sigmoid=sigmoid, **more)

    return tolerance


def _hamacher_product(a: Any, b: Any) -> Any:
    if not (0.0 <= a <= 1.0 and 0.0 <= b <= 1.0):
        raise ValueError(f"a ({a}) and b ({b}) must range between 0 and 1")
    denominator = a + b - (a * b)
    return (a * b) / denominator if denominator > 0 else 0.0


def _norm(x: Array) -> float:
    return math.sqrt(x.dot(x))


def _norm_xz(a: Array, b: Array) -> float:
    return _norm(np.array((a[0] - b[0], a[2] - b[2])))


class _Rotation:
    """What the environments use of SciPy's class, for rotation matrices that MuJoCo made."""

    def __init__(self, quat: Array) -> None:
        self._quat = quat

    @staticmethod
    def from_matrix(matrix: Array) -> "_Rotation":
        return _Rotation(_quat(matrix.tolist()))

    def as_quat(self) -> Array:
        return self._quat


def _quat(m: list[list[float]]) -> Array:
    """The quaternion (x, y, z, w) of a rotation matrix, from its largest part as in SciPy."""
    trace = m[0][0] + m[1][1] + m[2][2]
    parts = (m[0][0], m[1][1], m[2][2], trace)
    largest = parts.index(max(parts))
    quat = [0.0, 0.0, 0.0, 0.0]
    if largest == 3:
        quat[0] = m[2][1] - m[1][2]
        quat[1] = m[0][2] - m[2][0]
        quat[2] = m[1][0] - m[0][1]
        quat[3] = 1 + trace
    else:
        i, j, k = largest, (largest + 1) % 3, (largest + 2) % 3
        quat[i] = 1 - trace + 2 * m[i][i]
        quat[j] = m[j][i] + m[i][j]
        quat[k] = m[k][i] + m[i][k]
        quat[3] = m[k][j] - m[j][k]
    x, y, z, w = quat
    norm = math.sqrt(x * x + y * y + z * z + w * w)
    return np.array((x / norm, y / norm, z / norm, w / norm))
